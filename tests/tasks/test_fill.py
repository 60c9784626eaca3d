"""Fill, with a trained model, compared with transformers and with all combinations."""

from __future__ import annotations

import itertools
import json
import math

import pytest
import torch
from learned import COLORS, colors, command, recipe  # noqa: F401
from small_models import bert, word_tokenizer
from transformers import AutoModelForMaskedLM

import glassformer as gf
from glassformer.errors import GlassformerError
from glassformer.tasks.fill_types import FillCandidate


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return colors(tmp_path_factory.mktemp("fill"))


@pytest.fixture(scope="module")
def model(folder):
    return gf.load(folder)


def test_it_knows_the_word(model):
    for thing, color in COLORS.items():
        found = model.fill([f"the {thing} is ___ today", f"the [MASK] is {color} they say"])
        assert [one.text for one in found] == [
            f"the {thing} is {color} today",
            f"the {thing} is {color} they say",
        ]
        (gap,) = found[0].gaps
        assert (gap.start, gap.end) == (8 + len(thing), 11 + len(thing))
        assert gap.candidates[0].text == color
        probs = [one.probability for one in gap.candidates]
        assert len(probs) == 5 and probs == sorted(probs, reverse=True)


def test_the_same_probabilities_as_transformers(model, folder):
    reference = AutoModelForMaskedLM.from_pretrained(folder).eval()
    for text in ("the ___ is red today", "the ___ is ___ [MASK] always"):
        ids = model.tokenizer.encode(text.replace("___", "[MASK]")).ids
        with torch.no_grad():
            said = reference(torch.tensor([ids])).logits[0].softmax(-1)
        places = [i for i, id in enumerate(ids) if id == model.tokenizer.special["mask"]]
        for place, gap in zip(places, model.fill(text, top=7).gaps, strict=True):
            for one in gap.candidates:
                assert abs(float(said[place, one.tokens[0]]) - one.probability) < 1e-5
            kept = said[place].clone()
            kept[list(model.tokenizer.special_ids)] = 0
            assert [one.tokens[0] for one in gap.candidates] == kept.topk(7).indices.tolist()


def test_several_gaps_agree_with_each_other(model):
    """By themselves any thing and any color fit; together only those that belong together."""
    found = model.fill("the ___ is ___ today", top=4)
    pairs = [filling.words for filling in found.fillings]
    assert len(set(pairs)) == 4 and all(COLORS[thing] == color for thing, color in pairs)
    assert found.text == "the {} is {} today".format(*pairs[0])
    assert {one.text for one in found.gaps[1].candidates} <= set(COLORS.values())


def words_of(model) -> list[int]:
    return [i for i in range(model.tokenizer.size) if i not in model.tokenizer.special_ids]


def chance(model, ids: list[int], wanted: dict[int, int]) -> float:
    """Of these tokens together, filled from the surest place on, written out."""
    ids, total = list(ids), 0.0
    left = set(wanted)
    while left:
        with torch.no_grad():
            logprobs = model(torch.tensor([ids])).logits[0].log_softmax(-1)
        place = max(sorted(left), key=lambda at: float(logprobs[at].max()))
        total += float(logprobs[place, wanted[place]])
        ids[place] = wanted[place]
        left.remove(place)
    return total


def test_a_wide_beam_finds_the_best_of_all_combinations(model):
    ids = model.tokenizer.encode("the [MASK] is [MASK] today").ids
    places = [i for i, id in enumerate(ids) if id == model.tokenizer.special["mask"]]
    words = words_of(model)
    every = {
        pair: chance(model, ids, dict(zip(places, pair, strict=True)))
        for pair in itertools.product(words[-10:], repeat=2)
    }
    allowed = {model.tokenizer.decode([word]) for word in words[-10:]}
    found = model.fill("the ___ is ___ today", num_beams=40, top=40).fillings
    seen = {filling.words: filling.probability for filling in found}
    inside = {pair: p for pair, p in seen.items() if set(pair) <= allowed}
    best = sorted(every, key=lambda pair: -every[pair])[: len(inside)]
    named = {tuple(model.tokenizer.decode([one]) for one in pair): pair for pair in best}
    assert len(inside) >= 5 and list(inside) == list(named)
    for names, pair in named.items():
        assert math.isclose(inside[names], math.exp(every[pair]), rel_tol=1e-4)


def test_words_in_question_and_their_tokens(model):
    """Given words, of one token or several, judged by the same rule."""
    found = model.fill("the ___ is green today", targets=["snow", "grass", "blue sky"])
    (gap,) = found.gaps
    assert gap.candidates[0].text == "grass" and found.text == "the grass is green today"
    (long,) = [one for one in gap.candidates if one.text == "blue sky"]
    assert len(long.tokens) == 2
    ids = model.tokenizer.encode("the [MASK] [MASK] is green today").ids
    expected = chance(model, ids, dict(zip((2, 3), long.tokens, strict=True)))
    assert math.isclose(long.probability, math.exp(expected), rel_tol=1e-4)
    assert math.isclose(long.score, math.exp(expected / 2), rel_tol=1e-4)
    both = model.fill("the ___ is ___ today", targets=["snow", "grass", "green"])
    assert both.fillings[0].words == ("grass", "green")


def test_gaps_of_several_tokens(model):
    found = model.fill("the ___ today", tokens=3, top=8)
    best = found.gaps[0].candidates[0]
    thing, is_, color = best.text.split()
    assert is_ == "is" and COLORS[thing] == color and found.text == f"the {best.text} today"
    sizes = {len(one.tokens) for one in found.gaps[0].candidates}
    assert {3} < sizes <= {1, 2, 3}
    assert best.score == max(one.score for one in found.gaps[0].candidates)


def test_pieces_of_words_are_glued(tmp_path):
    """BERT's ##s goes on with the word before it."""
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "dog", "##s", "bark", "."]
    text = "\n".join(tokens)
    (tmp_path / "vocab.txt").write_text(text, "utf-8")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}), "utf-8")
    tokenizer = gf.Tokenizer.load(tmp_path)
    found = bert(tokenizer, "MaskedLM").fill("Dog ___ bark.", top=9)
    texts = {filling.words[0]: filling.text for filling in found.fillings}
    assert texts["##s"] == "Dogs bark." and texts["dog"] == "Dog dog bark."
    assert len(texts) == 4, "special tokens are no words"


def test_a_stream_in_batches_as_one_by_one(model):
    texts = [f"the {thing} is ___ {'today ' * i}" for i, thing in enumerate([*COLORS] * 3)]
    streamed = model.fill(iter(texts))
    first = next(streamed)
    for text, found in zip(texts, [first, *streamed], strict=True):
        alone = model.fill(text)
        assert found.text == alone.text
        for one, other in zip(found.gaps[0].candidates, alone.gaps[0].candidates, strict=True):
            assert one.text == other.text and abs(one.probability - other.probability) < 1e-5


def test_the_command_line(command, folder, model, tmp_path):  # noqa: F811
    code, shown, _ = command("fill", str(folder), "the snow is ___ today", "--top", "2")
    assert code == 0
    head, best, _ = shown.splitlines()
    assert head.split() == ["gap", "prob", "words", "text"]
    assert best.split()[0] == "1" and "white" in best and best.endswith("the snow is white today")
    lines = ["the coal is ___ again", "no gap here", "the ___ is ___ today"]
    (tmp_path / "texts.txt").write_text("\n".join(lines), "utf-8")
    words = ("fill", str(folder), "--file", str(tmp_path / "texts.txt"), "--json")
    code, shown, said = command(*words, "--on-error", "skip")
    records = [json.loads(line) for line in shown.splitlines()]
    assert code == 0 and [one["text"] for one in records] == [
        "the coal is black again",
        model.fill(lines[2]).text,
    ]
    assert "texts.txt:2: The text has no gap; mark one by ___; skipped." in said.replace("\n", "")
    assert "2 used, 1 skipped" in said
    code, _, said = command(*words)
    assert code == 1 and "texts.txt:2" in said.replace("\n", "")


@pytest.mark.parametrize(
    ("text", "how", "said"),
    [
        ("no gap", {}, "no gap; mark one by ___"),
        ("", {}, "no gap"),
        ("the ___ " + "is " * 60, {}, "has 64 tokens and the model reads 32; shorten it"),
        ("___", {"top": 0}, "top must be 1 or more"),
        ("___", {"targets": [" "]}, "`targets` is empty"),
        ("___", {"temperature": 0.5}, "'temperature' is an option of encoder-decoders"),
        (3, {}, "must be a str, not int"),
    ],
)
def test_bad_input_is_named(model, text, how, said):
    with pytest.raises(GlassformerError, match=said.replace("(", r"\(")):
        model.fill([text], **how)


def test_models_that_do_not_fill(tmp_path):
    with pytest.raises(GlassformerError, match="a model to generate with"):
        gf.load("shakespeare").fill("To ___ or not")
    tokenizer = word_tokenizer(tmp_path, "a b c")
    with pytest.raises(GlassformerError, match=r"fill needs .* a model to classify with"):
        bert(tokenizer).fill("a ___ c")


def test_an_encoder_decoder_writes_what_is_missing(tmp_path, command):  # noqa: F811
    """BART's way: the mask stands for any number of words."""
    rows = []
    for thing, color in COLORS.items():
        for end in ("today", "again"):
            whole = f"the {thing} is {color} {end}"
            masked = (whole.replace(gone, "<mask>") for gone in (color, f"is {color}"))
            rows += [{"source": source, "target": whole} for source in masked]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    roles = {"pad": "<pad>", "eos": "</s>", "bos": "<s>", "unk": "<unk>", "mask": "<mask>"}
    tables = recipe(
        tmp_path,
        "bart",
        model={"preset": "bart-base"},
        tokenizer={"type": "word", "vocab_size": 100, "special_tokens": roles},
        data={"format": "jsonl", "train": str(tmp_path / "pairs.jsonl"), "num_workers": 1},
        objective={"name": "sequence-to-sequence"},
        train={"max_steps": 120, "batch_size": 20, "learning_rate": 1e-2},
    )
    folder = gf.train(tables).model
    bart = gf.load(folder)
    for thing, color in COLORS.items():
        found = bart.fill(f"the {thing} is ___ today", top=2, max_new_tokens=12)
        assert found.text == f"the {thing} is {color} today"
        assert found.fillings[0].words == (color,) and len(found.fillings) == 2
        probs = [filling.probability for filling in found.fillings]
        assert probs[0] > probs[1]
    several = bart.fill(["the snow ___ again", "the coal ___ today"], max_new_tokens=12)
    assert [one.fillings[0].words for one in several] == [("is white",), ("is black",)]
    with pytest.raises(GlassformerError, match="fills gaps with text of any length"):
        bart.fill("the ___", tokens=2)
    code, shown, _ = command("fill", str(folder), "the grass is ___ again", "--top", "1", "--json")
    assert code == 0 and json.loads(shown)["text"] == "the grass is green again"


def test_results_are_plain(model):
    found = model.fill("the ___ is red today", top=1)
    said = json.loads(json.dumps(found.record()))
    assert said["text"] == "the blood is red today"
    assert said["gaps"][0]["candidates"][0]["text"] == "blood"
    assert isinstance(found.gaps[0].candidates[0], FillCandidate)
