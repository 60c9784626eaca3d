"""The recipes run on other text, and compared recipes differ only in the compared setting."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import glassformer as gf
from glassformer.text import train as train_tokenizer
from glassformer.train.recipe import differences, read_recipe
from glassformer.train.trainer import dry_run

ROOT = Path(__file__).parent.parent
# ULMFiT's need each other: tests/train/test_ulmfit.py runs them. Those of the zoo have a test of
# their own, too: tests/test_zoo_recipes.py.
RECIPES = {path.stem: path for path in sorted((ROOT / "recipes").glob("**/*.toml"))}
TEXT = "The old miller walked to the river <unk> and nobody [UNK] asked him why . <eos>\n" * 30
ROWS = {
    "CoLA": "gj04\t{}\t\tNobody asked the miller {}.\n",
    "SST-2": "nobody asked the old miller {1} \t{0}\n",
    "STS-B": "0\tmain\tMSR\t2012\t1\tnone\tnone\tThe miller {1}.\tA miller {1}.\t{0}.5\n",
}
HEADS = {
    "SST-2": "sentence\tlabel\n",
    "STS-B": "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\t"
    "sentence1\tsentence2\tscore\n",
}
TINY = ["train.batch_size=2", "train.compile=false", "train.precision=float32"]
SIZES = ("num_layers", "num_heads", "hidden_size", "intermediate_size", "context_length")
FRESH = ["model.num_layers=1", "model.num_heads=2", "model.hidden_size=16"]


RECORD = {"source": ["A miller walked."], "target": ["He walked."], "email": "Hi", "subject": "a"}
PARTS = [
    {"objective": "classification", "text": "The miller won.", "label": "Sports"},
    {"objective": "classification", "text": "The miller lost.", "label": "World"},
    {"objective": "classification-2", "text": "Nobody asked him.", "label": "0"},
    {"objective": "classification-2", "text": "Somebody asked him.", "label": "1"},
    {"objective": "tagging", "words": ["The", "miller"], "tags": ["O", "B-PER"]},
]
TAGS = "The\tO\nold\tB-PER\nmiller\tI-PER\nwalked\tO\n\n" * 12
QUESTIONS = [
    {"id": str(i), "question": "Who?", "answers": [{"text": "old miller", "answer_start": 4}]}
    for i in range(12)
]
SQUAD = json.dumps({"data": [{"paragraphs": [{"context": TEXT[:60], "qas": QUESTIONS}]}]})


def stand_in(path: Path, form: str) -> str:
    """What may stand in a file of that name."""
    task = path.parent.name
    if form in ("conll", "squad"):
        return TAGS if form == "conll" else SQUAD
    if task == "together":
        return "".join(json.dumps(part) + "\n" for part in PARTS * 4)
    if path.suffix == ".jsonl":
        labeled = ({**RECORD, "text": "The miller.", "label": str(i % 2)} for i in range(12))
        return "".join(json.dumps(record) + "\n" for record in labeled)
    if task not in ROWS:
        return TEXT
    return HEADS.get(task, "") + "".join(ROWS[task].format(i % 2, i) for i in range(12))


ELSEWHERE = {n for n, path in RECIPES.items() if "ulmfit" in n or path.parent.name == "zoo"}


@pytest.mark.parametrize("name", [name for name in RECIPES if name not in ELSEWHERE])
def test_a_recipe_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("recipes").symlink_to(ROOT / "recipes")  # their data is beside them
    file = RECIPES[name].relative_to(ROOT)
    recipe = read_recipe(file)
    for path in map(Path, (*recipe.data.train, *recipe.data.validation, *recipe.data.test)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(stand_in(path, recipe.data.format))
    overrides = TINY
    if recipe.model.base is None:
        overrides = [*TINY, *FRESH]
    elif recipe.objective[0].name == "continuation":
        overrides = [*TINY, 'model.base="base"']
        tokenizer = train_tokenizer("byte-bpe", texts=[TEXT], vocab_size=300)
        sizes = {"n_layer": 1, "n_embd": 16, "n_head": 2}
        gf.create("gpt2", tokenizer=tokenizer, vocab_size=300, **sizes).save("base")
    else:
        overrides = [*TINY, 'model.base="base"']
        tokenizer = train_tokenizer("wordpiece", texts=[TEXT], vocab_size=60)
        sizes = {"num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2}
        kind = "bert-base" if "Bert" in (recipe.model.architecture or "Bert") else "electra-small"
        made = {"architectures": ["BertModel"]} if kind == "bert-base" else {}
        model = gf.create(kind, tokenizer=tokenizer, vocab_size=60, **sizes, **made)
        model.save("base")
    plan = dry_run(file, overrides, device="cpu")
    assert plan.steps == recipe.train.max_steps and plan.seconds_step


def keys_that_differ(one: str, other: str) -> set[str]:
    found = differences(read_recipe(RECIPES[one]), read_recipe(RECIPES[other]))
    return {line.split(":")[0] for line in found}


def test_what_is_compared_is_alike_but_for_what_is_compared():
    assert keys_that_differ("wikitext2", "wikitext2-memory") == {
        "model.config.mem_len",
        "objective.memory_length",
    }
    assert keys_that_differ("electra", "masked") == {
        "model.architecture",
        "objective.name",
        "train.max_steps",
        "train.warmup_steps",
    }
    assert keys_that_differ("multi30k-de-en", "multi30k-fr-en") == {"data.train", "data.validation"}
    assert keys_that_differ("scitldr-decoder", "scitldr-pretrained") == {
        "model.preset",
        "model.base",
        *(f"model.{size}" for size in SIZES),
        *(f"model.config.{place}_pdrop" for place in ("resid", "embd", "attn")),
        "tokenizer.type",
        "tokenizer.special_tokens.pad",
        "train.learning_rate",
    }


def test_the_guide_names_every_recipe_and_has_a_place_for_the_results():
    guide = (ROOT / "docs" / "recipes.md").read_text("utf-8")
    assert [name for name in RECIPES if f"{name}.toml" not in guide] == []
    compared = ("shakespeare", "wikitext2", "electra")
    tuned = ("classify", "scope", "entities", "questions", "together")
    written = ("multi30k", "summaries")
    marks = [f"<!-- {name} -->" for name in (*compared, *tuned, *written)]
    assert {guide.count(mark) for mark in marks} == {2}
