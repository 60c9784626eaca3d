"""Control codes and examples before the prompt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import glassformer as gf
from glassformer import GlassformerError
from glassformer.generate.few_shot import split_examples
from glassformer.text.training.train import train

TEXT = "<|story|>Once upon a time.\ncar -> cars\ndog -> dogs\ncat ->"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    tokenizer = train("char", texts=[TEXT, "xyz\n"], control_codes=("story", "poem"))
    sizes = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 200}
    gf.create("gpt2", seed=1, vocab_size=tokenizer.size, **sizes).save(folder)
    tokenizer.save(folder)
    return gf.load(folder)


def test_a_control_code_is_one_token_before_the_prompt(model):
    tokenizer = model.tokenizer
    assert tokenizer.control_codes == {"story": "<|story|>", "poem": "<|poem|>"}
    ids = [tokenizer.id("<|story|>"), *tokenizer.ids("Once")]
    wanted = model.generate(ids, max_new_tokens=8).tokens
    assert model.generate("Once", control="story", max_new_tokens=8).tokens == wanted
    assert model.generate("<|story|>Once", max_new_tokens=8).tokens == wanted
    alone = model.generate([ids[0]], max_new_tokens=8).tokens
    assert model.generate(control="story", max_new_tokens=8).tokens == alone
    scores = [
        model.generate("Once", control=c, max_new_tokens=1).logprobs for c in ("story", "poem")
    ]
    assert scores[0] != scores[1]


def test_a_saved_tokenizer_keeps_its_codes_and_the_reference_reads_it(model, tmp_path):
    model.tokenizer.save(tmp_path)
    assert gf.Tokenizer.load(tmp_path).control_codes == model.tokenizer.control_codes
    from transformers import AutoTokenizer

    reference = AutoTokenizer.from_pretrained(tmp_path)
    assert reference("<|poem|>Once")["input_ids"] == model.tokenizer.ids("<|poem|>Once")


def test_examples_come_before_the_prompt_and_end_the_text(model):
    examples = ["car -> cars", "dog -> dogs"]
    whole = "car -> cars\ndog -> dogs\ncat ->"
    wanted = model.generate(whole, stop_strings="\n", max_new_tokens=20)
    found = model.generate("cat ->", examples=examples, max_new_tokens=20)
    assert found.tokens == wanted.tokens and found.text == wanted.text
    both = model.generate("cat ->", examples=examples, control="poem", max_new_tokens=9)
    assert both.tokens == model.generate("<|poem|>" + whole, max_new_tokens=9).tokens
    blocks = model.generate("a\nb", examples=["x\ny"], max_new_tokens=9)
    assert blocks.tokens == model.generate("x\ny\n\na\nb", max_new_tokens=9).tokens
    several = model.generate(["cat ->", "dog ->"], examples=examples, max_new_tokens=9)
    assert several[0].tokens == found.tokens[: len(several[0].tokens)]


def test_examples_of_a_file():
    file = Path("shots.txt")
    assert split_examples("car -> cars\ndog -> dogs\n\n", file) == ["car -> cars", "dog -> dogs"]
    blocks = split_examples("Q: 1\nA: 2\n\nQ: 3\nA: 4\n \nQ: 5\nA: 6\n", file)
    assert blocks == ["Q: 1\nA: 2", "Q: 3\nA: 4", "Q: 5\nA: 6"]
    with pytest.raises(GlassformerError, match=r"shots\.txt has no examples"):
        split_examples("\n", file)


def test_ctrls_codes_are_those_of_the_reference(tmp_path):
    from transformers.models.ctrl.tokenization_ctrl import CONTROL_CODES

    words = ["Links", "Books", "Hello</w>", "multilingual"]
    entries = {w.removesuffix("</w>"): i for i, w in enumerate([*words, "<unk>"])}
    (tmp_path / "vocab.json").write_text(json.dumps(entries))
    merges = "#version: 0.2\nH e\nHe l\nHel l\nHell o</w>\n"
    (tmp_path / "merges.txt").write_text(merges)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "ctrl"}))
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "CTRLTokenizer"}')
    codes = gf.Tokenizer.load(tmp_path).control_codes
    assert codes == {name: f"{name} " for name in CONTROL_CODES if name in entries}
    assert len(codes) == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"control": "poems"}, "has no control code 'poems'; it has story, poem"),
        ({"control": 3}, "control must be a text, not 3"),
    ],
)
def test_wrong_codes(model, given, message):
    with pytest.raises(GlassformerError, match=message):
        model.generate("Once", **given)


def test_models_and_prompts_without_codes(model):
    with pytest.raises(GlassformerError, match="it has none; leave control out"):
        gf.load("zoo:stories").generate("Once", control="story", max_new_tokens=2)
    with pytest.raises(GlassformerError, match="are for a text prompt, not for token ids"):
        model.generate([1, 2], control="story")
    sizes = {"n_embd": 16, "n_layer": 1, "n_head": 2, "vocab_size": 20}
    with pytest.raises(GlassformerError, match="control needs a tokenizer"):
        gf.create("gpt2", **sizes).generate("Once", control="story")


def test_on_the_command_line(model, glassformer, tmp_path):
    folder = tmp_path / "model"
    model.save(folder)
    (tmp_path / "shots.txt").write_text("car -> cars\ndog -> dogs\n")
    shots = ("--examples", str(tmp_path / "shots.txt"), "--max-new-tokens", "9")
    wanted = model.generate(
        "cat ->", examples=["car -> cars", "dog -> dogs"], control="story", max_new_tokens=9
    )
    code, out, err = glassformer("generate", str(folder), "cat ->", "--control", "story", *shots)
    assert (code, out, err) == (0, wanted.text + "\n", "")
    code, _, err = glassformer("generate", str(folder), "cat", "--control", "prose")
    assert code == 1 and "it has story, poem" in err
