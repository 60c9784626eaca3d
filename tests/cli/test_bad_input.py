"""Invalid lines: every verb names them, and with --on-error skip processes all others."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from small_models import bert, word_tokenizer

import glassformer as gf

GOOD = ["The film is ___ today.", "A bore, they say: ___."]
BAD = {
    2: ('{"text": 5}', "the field 'text' is not a text but '5'"),
    3: ("not json", "this is not JSON"),
    4: ('{"txt": "x ___"}', "there is no field 'text', only txt (--field)"),
    5: ('{"text": " "}', "the text is empty"),
    6: (b'{"text": "caf\xe9 ___"}', "the byte 0xe9 is no utf-8 text"),
    7: ('["x ___"]', "a JSON object was expected"),
    8: ('{"text": "half \\ud800 ___"}', "has half a character (a lone surrogate) at index 5"),
}
KINDS = {
    "classify": "SequenceClassification",
    "tag": "TokenClassification",
    "answer": "QuestionAnswering",
    "fill": "MaskedLM",
    "embed": None,
    "translate": "t5",
    "summarize": "t5",
}
T5 = {"d_model": 16, "num_heads": 2, "d_kv": 8, "d_ff": 16, "num_layers": 1}
SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder for every kind; what they say is of no matter here."""
    home = tmp_path_factory.mktemp("models")
    tokenizer = word_tokenizer(home / "words", " ".join([*GOOD, "café who . ,"]))
    made = {}
    words = {"tokenizer": tokenizer, "vocab_size": tokenizer.size}
    for kind in {*KINDS.values()}:
        if kind == "t5":
            ids = {"eos_token_id": 3, "decoder_start_token_id": 0, "pad_token_id": 0}
            model = gf.create("t5-small", **words, **T5, **ids)
            model.generation_config = {"max_new_tokens": 4, **ids}
        elif kind is None:
            model = gf.create("bert-base", architectures=["BertModel"], **words, **SIZES)
        else:
            model = bert(tokenizer, kind)
        made[kind] = home / str(kind)
        model.save(made[kind])
    return {verb: str(made[kind]) for verb, kind in KINDS.items()}


def words(verb: str, model: str) -> tuple[str, ...]:
    return (verb, model, "Who?") if verb == "answer" else (verb, model)


def broken(folder) -> str:
    """Good lines are the first and the last."""
    first, last = (json.dumps({"text": text}) for text in GOOD)
    lines = [first, *(line for line, _ in BAD.values()), last]
    raw = [line if isinstance(line, bytes) else line.encode() for line in lines]
    (folder / "a.jsonl").write_bytes(b"\n".join(raw))
    return str(folder / "a.jsonl")


@pytest.mark.parametrize("verb", KINDS)
def test_bad_lines_of_json(glassformer, models, tmp_path, verb):
    path = broken(tmp_path)
    asked = *words(verb, models[verb]), "--file", path, "--json"
    code, _, said = glassformer(*asked)
    assert (
        code == 1 and f"{path}:2: {BAD[2][1]}; correct it, or continue with --on-error skip" in said
    )
    code, shown, said = glassformer(*asked, "--on-error", "skip")
    assert code == 0 and "2 used, 7 skipped." in said
    wheres = [json.loads(line)["where"] for line in shown.splitlines()]
    assert wheres == [f"{path}:1", f"{path}:9"]
    for number, (_, why) in BAD.items():
        if verb == "answer" and number == 4:
            why = "there is no field 'context', only txt;"
        assert re.search(rf"{re.escape(path)}:{number}: .*{re.escape(why)}", said)


@pytest.mark.parametrize("verb", KINDS)
def test_bad_rows_of_a_table_and_nothing_to_read(glassformer, models, tmp_path, verb):
    rows = ["text,label", f'"{GOOD[0]}",x', "one", "a,b,c", ",x", f'"{GOOD[1]}",y']
    path = tmp_path / "a.csv"
    path.write_text("\n".join(rows), "utf-8")
    asked = words(verb, models[verb])
    code, shown, said = glassformer(*asked, "--file", str(path), "--json", "--on-error", "skip")
    assert code == 0 and "2 used, 3 skipped." in said and len(shown.splitlines()) == 2
    assert f"{path}:3: this row has 1 columns, not 2" in said
    assert f"{path}:4: this row has 3 columns, not 2" in said
    assert f"{path}:5: the text is empty" in said.replace("context", "text")
    code, _, said = glassformer(*asked, "")
    assert code == 1 and "is empty" in said


MISTAKEN = [  # every model can embed, and this one can fill, too
    (verb, other)
    for verb in KINDS
    for other in KINDS
    if verb != "embed" and KINDS[verb] != KINDS[other] and (verb, KINDS[other]) != ("fill", "t5")
]


@pytest.mark.parametrize(("verb", "other"), MISTAKEN)
def test_a_model_of_another_kind_names_the_verb_that_fits(glassformer, models, verb, other):
    code, _, said = glassformer(*words(verb, models[other]), "a ___ film")
    fits = dict.fromkeys(("translate", "summarize"), "summarize or translate")
    assert code == 1 and f"a model to {fits.get(other, other)}" in said


def test_an_encoder_decoder_without_a_mask_does_not_fill(glassformer, tmp_path):
    texts = ["The film is good.", "A bore, they say."]
    roles = {"eos": "</s>", "pad": "<pad>"}
    tokenizer = gf.text.train("byte-bpe", texts=texts, vocab_size=300, special_tokens=roles)
    sizes = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": tokenizer.size}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    model = gf.create("transformer-base", tokenizer=tokenizer, **sizes, **heads)
    model.save(tmp_path / "model")
    code, _, said = glassformer("fill", str(tmp_path / "model"), "a ___", "--on-error", "skip")
    assert code == 1 and "is a model to summarize or translate with" in said


def test_empty_lines_of_a_text_are_layout_to_translate(glassformer, models, tmp_path):
    (tmp_path / "a.txt").write_text(f"{GOOD[0]}\n\n{GOOD[1]}\n", "utf-8")
    code, shown, said = glassformer(
        "translate", models["translate"], "--file", str(tmp_path / "a.txt"), "--json"
    )
    found = [json.loads(line)["translation"] for line in shown.splitlines()]
    assert code == 0 and "skipped" not in said
    assert len(found) == 3 and not found[1]


def test_right_tags_of_another_scheme(glassformer, models, tmp_path):
    labels = gf.load(models["tag"]).spec.labels
    path = tmp_path / "a.conll"
    path.write_text(f"film\tB-{labels[0]}\ntoday\tI-{labels[0]}\n\nbore\tO\n", "utf-8")
    model = gf.load(models["tag"])
    names = ["O", f"B-{labels[0]}"]
    model.config["id2label"] = dict(enumerate(names))
    model.save(tmp_path / "model")
    asked = "tag", str(tmp_path / "model"), "--file", str(path), "--report"
    assert glassformer(*asked)[0] == 0
    code, _, said = glassformer(*asked, "--strict", "IOBES")
    assert code == 1 and f"{path}:1: the tags do not follow IOBES (--strict)" in said


def test_questions_and_dates_that_are_missing(glassformer, models, tmp_path):
    rows = [{"question": "", "context": "x"}, {"context": "x"}, {"question": "Who?", "context": ""}]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, _, said = glassformer(
        "answer", models["answer"], "--file", str(path), "--on-error", "skip"
    )
    assert code == 0 and "0 used, 3 skipped." in said
    assert ":1: the question is empty" in said and ":3: the context is empty" in said
    assert ":2: there is no field 'question', only context;" in said
    path.write_text(json.dumps({"text": "a film"}) + "\n")
    code, _, said = glassformer("watch", models["classify"], "--file", str(path))
    assert code == 1 and "there is no field 'date', only text (--date)" in said


def test_ctrl_c_while_torch_is_imported_leaves_no_traceback():
    program = """
import sys

class Interrupted:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupted())
from glassformer.__main__ import main
sys.argv = ["glassformer", "inspect", "gpt2"]
main()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "Interrupted.\n")
