"""Infilling: gaps become sentinels or masks, and what the model says goes into the text."""

from __future__ import annotations

import pytest
import torch
from tokenizers import AddedToken, decoders, models, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend

import glassformer as gf
from glassformer.errors import GlassformerError
from glassformer.generate import infill
from glassformer.generate.infilling import filler_of
from glassformer.generate.result import GenerationOutput
from glassformer.text import Tokenizer

WORDS = ["The", "cute", "dog", "walks", "in", "the", "green", "park", ".", "A"]
SIZES = {"vocab_size": 40}
T5 = {"d_model": 16, "d_ff": 24, "d_kv": 8, "num_heads": 2, "num_layers": 1}
BART = {
    "d_model": 16,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
}


def tokenizer_in(folder, special, **roles):
    """Words with their spaces, and the special tokens of a family."""
    pieces = [*special, *(f"▁{word}" for word in WORDS), *(word for word in WORDS)]
    ids = {piece: number for number, piece in enumerate(pieces)}
    backend = Backend(models.WordLevel(ids, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(split=True)
    backend.decoder = decoders.Metaspace()
    backend.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in special])
    backend.post_processor = processors.TemplateProcessing(
        single=["$A", "</s>"], special_tokens=[("</s>", ids["</s>"])]
    )
    folder.mkdir()
    backend.save(str(folder / "tokenizer.json"))
    names = ", ".join(f'"{role}_token": "{token}"' for role, token in roles.items())
    (folder / "tokenizer_config.json").write_text(
        f'{{"tokenizer_class": "PreTrainedTokenizerFast", {names}}}'
    )
    return Tokenizer.load(folder)


@pytest.fixture(scope="module")
def t5(tmp_path_factory):
    special = ["<pad>", "</s>", "<unk>", "<extra_id_0>", "<extra_id_1>", "<extra_id_2>"]
    folder = tmp_path_factory.mktemp("t5") / "words"
    words = tokenizer_in(folder, special, eos="</s>", pad="<pad>", unk="<unk>")
    return gf.create("t5-small", seed=1, tokenizer=words, **SIZES, **T5)


@pytest.fixture(scope="module")
def bart(tmp_path_factory):
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    folder = tmp_path_factory.mktemp("bart") / "words"
    words = tokenizer_in(folder, special, eos="</s>", pad="<pad>", unk="<unk>", mask="<mask>")
    return gf.create("bart-base", seed=1, tokenizer=words, **SIZES, **BART)


def forced(model, said):
    """The option that makes a model say this."""
    ids = model.tokenizer.encode(said, special=False).ids
    end = model.tokenizer.special["eos"]
    prompt = 1

    def allowed(row, tokens):
        made = len(tokens) - prompt
        return [ids[made] if made < len(ids) else end]

    return {"prefix_allowed_tokens_fn": allowed}


GAPS = "The ___ walks in ___ park ."
SAID = "<extra_id_0> cute dog<extra_id_1> the green<extra_id_2> A A A"


@pytest.mark.parametrize(
    "text", [GAPS, GAPS.replace("___", "_____"), "The <extra_id_0> walks in <extra_id_1> park ."]
)
def test_what_is_said_behind_sentinels_fills_the_gaps(t5, text):
    result = infill(t5, text, **forced(t5, SAID))
    assert result.text == "The cute dog walks in the green park ."
    assert result.spans == ["cute dog", "the green"]
    assert result.finish_reason == "eos"
    assert result.tokens[-1] == t5.tokenizer.id("<extra_id_2>")  # nothing more is wanted


def test_the_encoder_reads_sentinels_in_order(t5):
    filler = filler_of(t5.generator)
    assert filler.source(["The ", " walks in ", " park ."]) == (
        "The <extra_id_0> walks in <extra_id_1> park ."
    )


@pytest.mark.parametrize(
    ("said", "spans"),
    [
        ("<extra_id_1> the", ["", "the"]),
        ("<extra_id_1> the<extra_id_0> dog", ["dog", "the"]),
        ("A dog", ["", ""]),
        ("", ["", ""]),
        ("A<extra_id_0> cute</s><extra_id_1> dog", ["cute", ""]),
    ],
)
def test_a_model_may_say_something_else(t5, said, spans):
    tokens = t5.tokenizer.encode(said, special=False).ids
    generation = GenerationOutput("", tokens, [0.0] * len(tokens), "eos")
    result = filler_of(t5.generator).filled(["The ", " walks in ", " park ."], generation)
    assert result.spans == spans
    assert result.text == f"The {spans[0]} walks in {spans[1]} park ."


def test_a_mask_is_filled_by_writing_the_whole_text(bart):
    for text in (GAPS, GAPS.replace("___", "<mask>")):
        result = infill(bart, text, **forced(bart, "The cute dog walks in the green park ."))
        assert result.text == "The cute dog walks in the green park ."
        assert result.spans == ["cute dog", "the green"]
    other = infill(bart, GAPS, **forced(bart, "A dog walks ."))
    assert (other.text, other.spans) == ("A dog walks .", None)


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_as_the_model_itself_would_have_it(name, request):
    model = request.getfixturevalue(name)
    mark = ("<extra_id_0>", "<extra_id_1>") if name == "t5" else ("<mask>", "<mask>")
    source = f"The {mark[0]} walks in {mark[1]} park ."
    options = {"num_beams": 3, "num_return_sequences": 3, "max_new_tokens": 8}
    result = infill(model, GAPS, **options)
    ends = [model.tokenizer.special["eos"]]
    if name == "t5":
        ends.append(model.tokenizer.id("<extra_id_2>"))
    plain = model.generate(source, eos_token_id=ends, **options)
    assert result.tokens == plain.tokens
    assert [o.tokens for o in result.alternatives] == [o.tokens for o in plain.alternatives]
    assert torch.isfinite(torch.tensor(result.logprobs)).all()
    if name == "t5":
        assert all(len(one.spans) == 2 for one in (result, *result.alternatives))
        assert result.record()["spans"] == result.spans


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("No gap.", "The text has no gap; mark one by ___."),
        ("___ ___ ___ ___", "no sentinels for 4 gaps"),
        ("", "The text has no gap"),
        (["a ___"], "Infilling reads one text"),
    ],
)
def test_bad_texts(t5, text, said):
    with pytest.raises(GlassformerError) as caught:
        infill(t5, text)
    assert said in str(caught.value)


def test_models_that_cannot_fill_a_gap():
    with pytest.raises(GlassformerError, match="an encoder-decoder whose tokenizer has a mask"):
        infill(gf.load("shakespeare"), GAPS)
    with pytest.raises(GlassformerError, match="Infilling needs a tokenizer"):
        infill(gf.create("t5-small", **SIZES, **T5), GAPS)
