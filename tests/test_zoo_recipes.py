"""recipes/zoo: its data holds nothing of its tests, its recipes run, and what they make is a model
with a card; and the models of the zoo are what the published classes compute."""

from __future__ import annotations

import io
import json
import sys
import zipfile
from importlib import import_module
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import glassformer as gf
from glassformer.page.model_sources import find_sources
from glassformer.text import train as train_tokenizer
from glassformer.train.recipe import differences, read_recipe
from glassformer.train.trainer import dry_run
from glassformer.zoo import card_of, checksum, folder_of, model_roots, names, read

ROOT = Path(__file__).parent.parent
PATHS = sorted((ROOT / "recipes" / "zoo").glob("*.toml"))
ELSEWHERE = ("stories", "digits")  # in test_zoo_stories.py and test_zoo_digits.py
RECIPES = {path.stem: path.relative_to(ROOT) for path in PATHS if path.stem not in ELSEWHERE}
MODULES = ("sources", "splits", "translator", "letters", "encoder", "reader", "data", "facts",
           "card", "build")  # fmt: skip
LIMITS = (75_000_000, 93_000_000)  # bytes of the models in each distribution


@pytest.fixture(scope="module")
def zoo():
    """The modules of recipes/zoo, which have names that others have, too."""
    before = {name: sys.modules.pop(name, None) for name in MODULES}
    sys.path.insert(0, str(ROOT / "recipes" / "zoo"))
    try:
        yield SimpleNamespace(**{name: import_module(name) for name in MODULES})
    finally:
        sys.path.remove(str(ROOT / "recipes" / "zoo"))
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


# --- Published files, as they might be ---------------------------------------------------------

WHO = ("Tom", "Mary", "the miller", "an old king", "nobody", "my aunt", "a dog", "the queen")
DID = ("sleeps", "walks home", "sings", "reads a book", "drinks tea", "lost a key", "sees a river")
SAID = [f"{who} {did}" for who, did in product(WHO, DID)]
CODES = {"fr": "fr {}", "zh": "中 {}"}


def pairs(code: str) -> str:
    """Some sentences stand there twice, in another case or with other signs, or with another
    translation."""
    rows = []
    for number, text in enumerate(SAID):
        other = CODES[code].format(text)
        rows.append(f"{text}.\t{other}.")
        if number % 3 == 0:
            rows.append(f"{text.upper()}!\t{other}\u202f!")
        if number % 4 == 0:
            rows.append(f"{text}.\tencore {other}.\tCC-BY 2.0 (France)")
        if number % 5 == 0:
            rows.append(f"It is said that {text}.\t{other}?")
    return "\n".join(rows) + "\n"


def sentences(texts: list[str], mark: str) -> str:
    """A word and its tag a line, an empty line behind a sentence."""
    tagged = (
        "".join(f"{word}\t{mark if word.istitle() else 'O'}\n" for word in text.split())
        for text in texts
    )
    return "\n".join(tagged)


def packed(files: dict[str, str]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return stream.getvalue()


def published() -> dict[str, bytes]:
    asked = [[f"please say that {text}", f"intent {i % 4}"] for i, text in enumerate(SAID)]
    reviews = {"README": "read me", "pos/a.txt": "\n".join(f"the film where {t} ." for t in SAID)}
    texts = {
        "tatoeba_fra/fra.txt": pairs("fr"),
        "tatoeba_cmn/cmn.txt": pairs("zh"),
        "tinyshakespeare/input.txt": "To be, or not to be: that is the question.\n" * 40,
        **{f"wikitext2/{part}.txt": f" = {part} = \n\n Rare <unk> words 1 @,@ 000 .\n" * 20
           for part in ("train", "valid", "test")},
        "squad1_subset/squad_4330.json": json.dumps(
            [{"context": f"In {text} there is more. Or so says {text}."} for text in SAID]),
        "xquad/xquad.en.json": json.dumps({"data": [{"paragraphs": [{"context": SAID[0]}]}]}),
        "banking77/train.csv": "text,category\n" + "".join(f'"{t}, why?",card\n' for t in SAID),
        "clinc150/data_full.json": json.dumps(
            {"train": [*asked[:40], asked[50]], "val": asked[40:48], "test": asked[48:]}),
        "clinc150/domains.json": json.dumps(
            {"work": ["intent 0", "intent 1"], "home": ["intent 2", "intent 3"]}),
        **{f"sentence_polarity/rt-polarity.{end}": "\n".join(f"{word} , {t} ." for t in SAID) + "\n"
           for end, word in (("pos", "fine"), ("neg", "dull"))},
        "wnut17/wnut17train.conll": sentences(SAID[:30], "B-person"),
        "wnut17/emerging.dev.conll": sentences(SAID[28:40], "B-group"),
        "wnut17/emerging.test.annotated": sentences(SAID[38:], "B-creative-work"),
        "wikigold.conll.txt": sentences(["Mary Smith reads"], "I-PER").replace("\t", " "),
        **{f"btc/{part}.conll": sentences(SAID[:9], "B-LOC") for part in "abefgh"},
    }  # fmt: skip
    files = {name: text.encode() for name, text in texts.items()}
    lines = "\n".join(f"fine , {text} ." for text in SAID)
    archives = {
        "movie_reviews": reviews,
        "subjectivity": {"quote": lines},
        "pros_cons": {"a": "<Pros>Light</Pros>"},
        "state_union": {"a": "My friends,\nWe Carry On."},
        "inaugural": {"a": "Fellow citizens."},
    }
    return files | {f"nltk/{name}.zip": packed(inside) for name, inside in archives.items()}


@pytest.fixture(scope="module")
def made(zoo, tmp_path_factory):
    """A folder with the data of all, made of such files."""
    folder = tmp_path_factory.mktemp("zoo")
    (folder / "recipes").symlink_to(ROOT / "recipes")  # their data is beside them
    files = published()
    assert {*files} == {*zoo.sources.SOURCES}

    class SourceFiles(zoo.sources.SourceFiles):
        def read(self, name: str) -> bytes:
            return files[name]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zoo.translator, "HELD_OUT", 5)
        patch.setattr(zoo.translator, "simplified", lambda: str)
        patch.setattr(zoo.reader, "HELD_OUT", 10)
        for name, make in zoo.data.MAKERS.items():
            make(SourceFiles([]), folder / "data" / "zoo" / name)
    return folder


def records(zoo, path: Path) -> list[dict]:
    return zoo.splits.read_records(path)


# --- Data --------------------------------------------------------------------------------------


def test_no_sentence_of_a_test_pair_is_learned_in_any_guise(zoo, made):
    home = made / "data" / "zoo" / "translator"
    tested: set[str] = set()
    for code in CODES:
        head, *rows = (home / "eval" / f"{code}-en.tsv").read_text("utf-8").splitlines()
        assert head == f"{code}\ten" and len(rows) == 5
        tested |= {zoo.splits.same(text) for row in rows for text in row.split("\t")}
    valid, train = (
        {
            zoo.splits.same(record[side])
            for code in CODES
            for record in records(zoo, home / f"{part}-{code}.jsonl")
            for side in ("source", "target")
        }
        for part in ("valid", "train")
    )
    assert len(train) > 50 and not tested & valid and not (tested | valid) & train
    first, second = records(zoo, home / "train-fr.jsonl")[:2]
    assert (first["source"], first["target"]) == (second["target"], second["source"])
    assert (first["target_language"], second["target_language"]) == ("en", "fr")
    assert "\u202f" not in (home / "train-fr.jsonl").read_text("utf-8")


def test_what_readers_are_tested_with_is_learned_by_none(zoo, made):
    home = made / "data" / "zoo"
    for task in ("topic", "sentiment", "entities"):
        train, valid = (records(zoo, home / "reader" / f"{part}-{task}.jsonl")
                        for part in ("train", "valid"))  # fmt: skip
        learned, chosen = ({*map(zoo.reader.key, part)} for part in (train, valid))
        assert learned and chosen and not learned & chosen
        assert {one["objective"] for one in train} == {zoo.reader.PARTS[task]}
    held = set()
    for path in (*(home / "reader" / "eval").glob("*.tsv"), *home.glob("translator/eval/*.tsv")):
        cells = path.read_text("utf-8").replace("\n", "\t").split("\t")
        held |= {zoo.splits.same(cell) for cell in cells if " " in cell}
    texts = [
        *(home / "encoder" / "train").glob("*.txt"),
        home / "reader" / "untaught-sentiment.txt",
    ]
    lines = [line for path in texts for line in path.read_text("utf-8").splitlines()]
    assert len(lines) > 300 and not held & {*map(zoo.splits.same, lines)}
    assert "Rare [UNK] words 1,000 ." in lines
    for task in ("topic", "sentiment"):
        learned = records(zoo, home / "reader" / f"train-{task}.jsonl")
        assert not held & {zoo.splits.same(one["text"]) for one in learned}


def test_tags_of_three_types(zoo):
    assert zoo.reader.iob2(["I-PER", "I-PER", "O", "B-corporation", "I-corporation"]) == [
        "B-PER", "I-PER", "O", "B-ORG", "I-ORG"]  # fmt: skip
    assert zoo.reader.iob2(["B-person", "B-person", "B-product", "I-LOC", "I-PER"]) == [
        "B-PER", "B-PER", "O", "B-LOC", "B-PER"]  # fmt: skip


def test_another_file_than_the_published_one_is_refused(zoo, tmp_path):
    name = "tinyshakespeare/input.txt"
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_text("To be")
    with pytest.raises(SystemExit, match=r"input\.txt is not the file that is wanted: it has 5 b"):
        zoo.sources.SourceFiles([tmp_path]).read(name)
    for source in zoo.sources.SOURCES.values():
        repository, commit = source.repository.rsplit("/", 1)
        assert len(commit) == 40 and repository.count("/") == 1 and len(source.sha256) == 64


# --- Recipes -----------------------------------------------------------------------------------

TINY = ["train.batch_size=2", "train.precision=float32", "data.num_workers=1"]
BODY = ["model.base=body"]  # in the place of real:minilm
FRESH = ["model.num_heads=2", "model.hidden_size=16", "model.intermediate_size=32"]


def bert(folder: str, architecture: str) -> None:
    tokenizer = train_tokenizer("wordpiece", texts=SAID, vocab_size=120)
    sizes = {"num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2}
    made = {"architectures": [architecture], "vocab_size": 120, "intermediate_size": 32}
    gf.create("bert-base", tokenizer=tokenizer, **sizes, **made).save(folder)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_runs(name, zoo, made, monkeypatch):
    monkeypatch.chdir(made)
    recipe = read_recipe(RECIPES[name])
    settings = [*TINY, *(FRESH if recipe.model.preset else ())]
    if "teacher" in name:
        bert("body", "BertModel")
        settings += BODY
    elif recipe.model.base or recipe.tokenizer.folder:
        bert("runs/zoo/encoder/model", "BertForMaskedLM")
    if name == "reader":  # as its teacher would have made them
        for task in ("sentiment", "entities"):
            text = (made / f"data/zoo/reader/train-{task}.jsonl").read_text("utf-8")
            (made / f"data/zoo/reader/taught-{task}.jsonl").write_text(text)
        assert {*recipe.objective[0].options["labels"]} >= {"work", "home"}
    if recipe.data.batching == "bucket":
        settings += [
            "data.tokens_per_batch=100",
            "data.max_batch_shapes=2",
            "tokenizer.vocab_size=300",
        ]
    plan = dry_run(RECIPES[name], settings, device="cpu")
    assert plan.steps == recipe.train.max_steps and plan.seconds_step


def test_a_teacher_says_what_it_thinks_of_texts_without_labels(zoo, made, monkeypatch):
    monkeypatch.chdir(made)
    bert("body", "BertModel")
    few = [*BODY, "train.max_steps=2", "run.out=runs/taught", "run.tensorboard=false"]
    run = gf.train(RECIPES["reader-teacher"], [*TINY, *few], device="cpu")
    home = made / "data" / "zoo" / "reader"
    zoo.reader.teach(home, run.model, "cpu")
    rows = records(zoo, home / "taught-sentiment.jsonl")
    texts = (home / "untaught-sentiment.txt").read_text("utf-8").splitlines()
    assert [one["text"] for one in rows] == texts
    assert {one["label"] for one in rows} == {"negative", "positive"}  # it is not sure of any
    for one in records(zoo, home / "taught-entities.jsonl"):
        assert len(one["words"]) == len(one["tags"]) and one["objective"] == "tagging"


def test_what_is_compared_differs_in_where_it_begins():
    found = differences(
        *(read_recipe(ROOT / RECIPES[f"encoder-{one}"]) for one in ("tuned", "scratch"))
    )
    assert all(line.startswith(("model.", "tokenizer.")) for line in found) and found
    body = differences(
        *(read_recipe(ROOT / RECIPES[one]) for one in ("encoder", "encoder-scratch"))
    )
    sizes = ("num_", "hidden_size", "intermediate_size", "context_length", "config")
    assert not [line for line in body if line.startswith(tuple(f"model.{one}" for one in sizes))]


# --- Building ----------------------------------------------------------------------------------


def test_facts_name_what_there_is(zoo, made):
    for name, facts in zoo.facts.FACTS.items():
        assert {*facts.recipes, *facts.beside} <= {*RECIPES}
        own = [trial for trial in facts.trials if trial.model is None]
        assert own and facts.data and facts.compared and facts.license
        for trial in facts.trials:
            assert (made / "data" / "zoo" / (trial.of or name) / "eval" / trial.file).is_file()
        first = facts.about.split(". ")[0]
        assert first and name not in first


def test_a_model_is_built_from_end_to_end(zoo, made, monkeypatch, capsys, tmp_path):
    """Trained by its recipe, packed in bfloat16 with the steps before, judged by the command that
    its card names, and read by the reference."""
    monkeypatch.chdir(made)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(zoo.build, "ROOT", made)
    few = ["model.num_layers=1", "model.hidden_size=16", "train.max_steps=6", "train.batch_size=2",
           "run.snapshots=[0,2]", "train.precision=float32", "data.num_workers=1",
           "run.tensorboard=false"]  # fmt: skip
    words = ["build.py", "letters", *few, "--zoo", str(tmp_path), "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", words)
    zoo.build.main()
    folder = tmp_path / "letters"
    config = json.loads((folder / "config.json").read_text())
    assert config["dtype"] == "bfloat16"
    (source,) = find_sources([str(folder)])
    assert [one.snapshot.step for one in source.checkpoints] == [0, 2, 6]
    start, end = source.checkpoints[0].load(), source.load()
    assert not torch.equal(*(one.decoder.embed.token.weight for one in (start, end)))
    found = json.loads((folder / "figures.json").read_text())
    again = gf.evaluate(gf.load(folder, dtype="float32"), folder / "eval" / "valid.txt")
    (trial,) = found["trials"].values()
    assert trial["figures"]["perplexity"]["value"] == pytest.approx(again["perplexity"])
    text = (folder / "README.md").read_text("utf-8")
    facts = zoo.facts.FACTS["letters"]
    assert text == zoo.card.card("letters", facts, found)
    for said in (f"license: {facts.license}", f"shown: {facts.place}",
                 'widget:\n- {"text": "ROMEO:', "recipes/zoo/letters.toml", "6 steps", "seed 1337",
                 "glassformer evaluate zoo:letters", f"{again['perplexity']:.3f}"):  # fmt: skip
        assert said in text
    equal_to_the_reference(folder)
    (folder / "figures.json").write_text(json.dumps({**found, "trials": {}}))
    capsys.readouterr()
    zoo.build.write_card("letters", facts, folder)
    assert "not judged are the last tenth of the text" in capsys.readouterr().out


# --- The zoo itself ----------------------------------------------------------------------------


def equal_to_the_reference(folder: Path) -> None:
    transformers = pytest.importorskip("transformers")
    ours = gf.load(folder, dtype="float32")
    theirs = getattr(transformers, ours.architecture).from_pretrained(folder, dtype=torch.float32)
    ids = torch.arange(1, 11)[None]
    with torch.no_grad():
        if ours.spec.encoder is not None and ours.spec.decoder is not None:
            said = (
                ours(decoder_input_ids=ids[:, :4], input_ids=ids),
                theirs(ids, decoder_input_ids=ids[:, :4]),
            )
        else:
            said = ours(ids), theirs(ids)
    torch.testing.assert_close(said[0].logits, said[1].logits, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", names())
def test_a_model_of_the_zoo(zoo, name):
    model = gf.load(f"zoo:{name}")
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    front, text = card_of(name)
    assert front["license"] and front["language"] and "seed" in text
    if model.config["model_type"] != "glassformer":  # a class of its own has no reference
        equal_to_the_reference(folder_of(name))
    if name in zoo.facts.FACTS:
        found = zoo.build.read_figures(folder_of(name))
        facts = zoo.facts.FACTS[name]
        assert (folder_of(name) / "README.md").read_text("utf-8") == zoo.card.card(
            name, facts, found
        )
        assert json.loads((folder_of(name) / "config.json").read_text())["dtype"] == "bfloat16"
        files = [trial.file for trial in facts.trials if trial.model is None]
        assert all((folder_of(name) / "eval" / file).is_file() for file in files)


def test_checksums_are_those_of_the_weights():
    for name in names():
        assert read(name).version in ("0.1", "0.2") and read(name).sha256 == checksum(name)


def test_the_distributions_are_small():
    for home, limit in zip(model_roots(), LIMITS, strict=True):
        assert sum(path.stat().st_size for path in home.rglob("*") if path.is_file()) <= limit
