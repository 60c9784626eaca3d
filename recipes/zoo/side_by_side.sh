#!/bin/sh
# The zoo's models at once on one GPU, each into glassformer/zoo and with a log in runs/zoo. What starts
# from another waits for it: the reader for the encoder, and for its teacher. More words are settings for
# all recipes: sh recipes/zoo/side_by_side.sh train.max_steps=9
cd "$(dirname "$0")/../.." || exit
export PYTHONPATH="$PWD" PYTHONUNBUFFERED=1 OMP_NUM_THREADS=2
python=${PYTHON:-python3}
logs=runs/zoo
mkdir -p $logs

build() {
    name=$1; shift
    if $python recipes/zoo/build.py "$name" "$@" > "$logs/$name.log" 2>&1
    then echo "$name is done after $(($(date +%s) - began)) s"
    else echo "$name has failed: $(tail -n 1 "$logs/$name.log")"
    fi
}

began=$(date +%s)
build letters "$@" &
build translator "$@" &
build encoder "$@" &
encoder=$!
$python -m glassformer train recipes/zoo/reader-teacher.toml "$@" > $logs/reader-teacher.log 2>&1 &
teacher=$!
wait $encoder $teacher
build reader "$@" &
wait
