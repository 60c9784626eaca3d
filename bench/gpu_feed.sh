#!/bin/bash
# Measures bench/feed.py on a GPU: each part has its own time limit and writes to $OUT.
#   bash bench/gpu_feed.sh DATA   where DATA holds en_openstax.txt.xz and pairs_en-de_tatoeba.tsv.xz
# and, for the figures of an older version, older.tar.xz with its package glassformer/.
data=${1:-data}
OUT=${OUT:-/tmp/out}
work=$(mktemp -d)
mkdir -p "$OUT"
export PYTHONPATH=$PWD
begin=$SECONDS
part() { # title, limit in seconds, command
    local title=$1 limit=$2
    shift 2
    echo "== $title (at $((SECONDS - begin)) s)"
    timeout -k 5 "$limit" "$@" 2>&1 | tee "$OUT/$title.log" | tail -n 30
    echo "== $title ended with ${PIPESTATUS[0]}"
}
python -c "import torch; print(torch.__version__, torch.cuda.get_device_name())"
xz -dc "$data/en_openstax.txt.xz" > "$work/text.txt"
xz -dc "$data/pairs_en-de_tatoeba.tsv.xz" > "$work/pairs.tsv"
real="--text $work/text.txt --pairs $work/pairs.tsv --folder $work/feed"
part encoder 130 python bench/feed.py encoder $real --device cuda --minute 45 --limit 120 --out "$OUT/encoder.json"
part translation 160 python bench/feed.py translation $real --device cuda --minute 80 --limit 150 --out "$OUT/translation.json"
part objectives 260 python bench/feed.py $(python bench/feed.py --list) --folder "$work/feed" --device cuda --jobs 6 \
    --minute 40 --seconds 2 --limit 130 --out "$OUT/objectives.json"
if [ -f "$data/older.tar.xz" ]; then
    mkdir "$work/older" && tar -xJf "$data/older.tar.xz" -C "$work/older"
    part older 60 python bench/feed.py masked-lm sequence-to-sequence span-corruption --folder "$work/feed" \
        --before "$work/older" --limit 50 --jobs 3 --out "$OUT/older.json"
fi
part half_a_gigabyte 100 python bench/feed.py large --folder "$work/feed" --text "$work/text.txt" --limit 95 --seconds 1 \
    --out "$OUT/large.json"
echo "== all ended at $((SECONDS - begin)) s"
