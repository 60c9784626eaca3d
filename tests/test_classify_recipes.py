"""The recipes of recipes/classify: their data is made of files like the real ones, and they run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import glassformer as gf
from glassformer.text import train as train_tokenizer
from glassformer.train.recipe import read_recipe
from glassformer.train.trainer import dry_run

ROOT = Path(__file__).parent.parent
RECIPES = {
    path.stem: path.relative_to(ROOT) for path in sorted(ROOT.glob("recipes/classify/*.toml"))
}
TINY = ["train.batch_size=2", "data.tokens_per_batch=200", "data.num_workers=1"]
BODY = ["model.base=body"]  # in the place of real:minilm
FRESH = [
    "model.num_layers=1",
    "model.num_heads=2",
    "model.hidden_size=16",
    "model.intermediate_size=16",
]
LORA = ['adapter.type="lora"', "adapter.rank=2", 'adapter.target_modules=["query","value"]']
TEXT = "The old miller, number {}, walked to the river"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    (folder / "recipes").symlink_to(ROOT / "recipes")  # their data is beside them
    rows = [(TEXT.format(i), ("yes", "no", "so")[i % 3]) for i in range(40)]

    def put(name: str, content: str, encoding: str = "utf-8") -> None:
        (folder / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "data" / name).write_text(content, encoding)

    for name in ("train", "dev"):
        lines = "".join(f'he said " {t}\t{i % 2}\n' for i, (t, _) in enumerate(rows))
        put(f"glue/SST-2/{name}.tsv", "sentence\tlabel\n" + lines)
    for name in ("train", "test"):
        put(f"banking77/{name}.csv", "text,category\n" + "".join(f'"{t}",{x}\n' for t, x in rows))
    news = "label,news\n" + "".join(f'{x},"{t} café"\n' for t, x in rows)
    put("financial_phrasebank/all-data.csv", news, "latin-1")
    for name in ("train_10001", "test"):
        put(f"ag_news/{name}.tsv", "".join(f"{t}\t{x}\n" for t, x in rows))
    hotels = "".join(f'{i % 2},"早餐，{t}"\n' for i, (t, _) in enumerate(rows))
    put("chnsenticorp_htl/ChnSentiCorp_htl_all.csv", "label,review\n" + hotels)
    parts = dict.fromkeys(("train", "val", "test"), rows)
    parts |= {f"oos_{name}": [(t, "oos") for t, _ in rows[:9]] for name in ("train", "val", "test")}
    put("clinc150/data_full.json", json.dumps(parts))
    script = ROOT / "recipes/classify/prepare.py"
    words = [sys.executable, str(script), str(folder / "data"), str(folder / "data/classify")]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    tokenizer = train_tokenizer("wordpiece", texts=[t for t, _ in rows], vocab_size=60)
    sizes = {"num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2}
    body = gf.create(
        "bert-base", tokenizer=tokenizer, vocab_size=60, architectures=["BertModel"], **sizes
    )
    body.save(folder / "body")
    return folder


def rows_of(made, name: str, part: str) -> list[dict[str, str | None]]:
    lines = (made / "data/classify" / name / f"{part}.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_splits_are_whole_and_apart(made):
    counts = {
        "sst2": (36, 4, 40), "banking77": (36, 4, 40), "phrasebank": (32, 4, 4),
        "ag_news": (36, 4, 40), "chnsenticorp": (32, 4, 4), "clinc150": (40, 40, 49),
    }  # fmt: skip
    assert set(counts) == set(RECIPES)
    for name, sizes in counts.items():
        parts = [rows_of(made, name, part) for part in ("train", "valid", "test")]
        assert tuple(map(len, parts)) == sizes
    parts = [rows_of(made, "phrasebank", part) for part in ("train", "valid", "test")]
    texts = [{row["text"] for row in part} for part in parts]
    assert len(set.union(*texts)) == 40 and all("café" in text for text in texts[0])
    assert rows_of(made, "sst2", "train")[0]["text"].startswith('he said "')
    scope = rows_of(made, "clinc150", "scope")
    assert [row["label"] for row in scope].count(None) == 9 and len(scope) == 49


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_runs(name, made, monkeypatch):
    monkeypatch.chdir(made)
    recipe = read_recipe(RECIPES[name])
    small = BODY if recipe.model.base else FRESH
    plan = dry_run(RECIPES[name], [*TINY, *small], device="cpu")
    assert plan.steps == recipe.train.max_steps and plan.seconds_step


@pytest.mark.parametrize("way", [LORA, ["train.freeze_base=true"]], ids=["lora", "frozen"])
def test_with_few_weights(way, made, monkeypatch):
    monkeypatch.chdir(made)
    whole = dry_run(RECIPES["banking77"], [*TINY, *BODY], device="cpu")
    few = dry_run(RECIPES["banking77"], [*TINY, *BODY, *way], device="cpu")
    assert few.trained < whole.trained / 2


def test_what_is_out_of_scope_gets_no_label(made, monkeypatch):
    """The guide's way: never worse than without a threshold, or with nothing in scope."""
    monkeypatch.chdir(made)
    guide = (ROOT / "docs/recipes.md").read_text("utf-8")
    block = guide.split("## Out-of-scope detection")[1].split("```python\n")[1].split("```")[0]
    labels = ["no", "so", "yes"]
    model = gf.load(
        "body",
        architecture="BertForSequenceClassification",
        init_missing="classifier",
        labels=labels,
    )
    model.save("runs/classify/clinc150/model")
    exec(compile(block, "recipes.md", "exec"), {})
    kept = gf.load("runs/classify/clinc150/with-scope")
    rows = rows_of(made, "clinc150", "scope")
    texts, right = [row["text"] for row in rows], [row["label"] for row in rows]

    def hits(found):
        return sum(one.label == label for one, label in zip(found, right, strict=True))

    assert hits(kept.classify(texts)) >= max(hits(model.classify(texts)), right.count(None))
