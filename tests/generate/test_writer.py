"""Generating from every kind of prompt: stops, streams, lengths and errors."""

from __future__ import annotations

import itertools
import re
from functools import partial

import pytest
import torch

import glassformer as gf
from glassformer.errors import GlassformerError
from glassformer.generate import GenerationInterrupted, infill
from glassformer.text import train as train_tokenizer

PROMPT = "ROMEO:\n"


@pytest.fixture(scope="module")
def bard():
    return gf.load("shakespeare")


@pytest.fixture(scope="module")
def bart():
    """No tokenizer, sixteen positions."""
    size = {"d_model": 16, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "vocab_size": 60}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    layers = {"encoder_layers": 1, "decoder_layers": 1, "max_position_embeddings": 16}
    return gf.create("bart-base", seed=3, **size, **heads, **layers)


# --- prompts -----------------------------------------------------------------------------------


def test_prompts_of_every_kind_are_one(bard):
    ids = bard.tokenizer.encode(PROMPT).ids
    wanted = bard.generate(PROMPT, max_new_tokens=5)
    for prompt in (ids, tuple(ids), torch.tensor(ids)):
        assert bard.generate(prompt, max_new_tokens=5) == wanted
    for prompts in ([PROMPT, ids], [ids, ids]):
        found = bard.generate(prompts, max_new_tokens=5)
        assert [one.tokens for one in found] == [wanted.tokens, wanted.tokens]
    rows = bard.generate(torch.tensor([ids, ids]), max_new_tokens=5)
    assert rows.tolist() == [ids + wanted.tokens] * 2


def test_without_a_prompt_a_text_begins_with_the_start_token(bard):
    assert bard.generate(max_new_tokens=5) == bard.generate([0], max_new_tokens=5)
    assert bard.generate([None, [0]], max_new_tokens=5)[0].tokens == (
        bard.generate(max_new_tokens=5).tokens
    )


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ("", "The prompt is empty; leave it out"),
        ([], "The prompt is empty"),
        ([3, 1024], "has the token 1024, and the model's end at 1023"),
        ([-1], "has the token -1"),
        ([1.5], "a text or a list of token ids"),
        (5, "a text or a list of token ids, not 5"),
        ({"a": 1}, "a text or a list of token ids"),
        (["fine", ""], "Prompt 1: The prompt is empty"),
        (["fine", 3], "Prompt 1: A prompt is a text or"),
        ([[3], [3, 2000]], "Prompt 1: The prompt has the token 2000"),
    ],
)
def test_bad_prompts(bard, prompt, said):
    with pytest.raises(GlassformerError) as caught:
        bard.generate(prompt)
    assert said in str(caught.value)


def test_a_tokenizer_with_more_tokens_than_the_model():
    bard = gf.load("shakespeare")
    small = gf.create(
        "gpt2", n_embd=16, n_layer=1, n_head=2, vocab_size=300, tokenizer=bard.tokenizer
    )
    with pytest.raises(GlassformerError, match="the model's end at 299"):
        small.generate("ROMEO: good morrow")


def test_a_model_without_a_tokenizer_reads_ids(bart):
    result = bart.generate([5, 6, 7], max_new_tokens=3, eos_token_id=None)
    assert len(result.tokens) == 3 and result.text == ""
    with pytest.raises(GlassformerError, match="no tokenizer; give the prompt as token ids"):
        bart.generate("Hello")
    with pytest.raises(GlassformerError, match="stop_strings needs a tokenizer"):
        bart.generate([5], stop_strings="x")
    with pytest.raises(GlassformerError, match="regex needs a tokenizer"):
        bart.generate([5], regex="x")


def test_an_encoder_decoder_wants_something_to_read(bart):
    with pytest.raises(GlassformerError, match="This model rewrites a text"):
        bart.generate()


def test_a_model_that_cannot_write():
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    bert = gf.create("bert-base", **sizes, intermediate_size=16, vocab_size=50)
    for call in (bert.generate, bert.score, partial(infill, bert)):
        with pytest.raises(GlassformerError, match="This model cannot write"):
            call("Hello")
    with pytest.raises(GlassformerError, match="This model cannot write"):
        next(bert.stream("Hello"))


# --- lengths -----------------------------------------------------------------------------------


def test_a_prompt_longer_than_the_context(bard):
    ids = [5 + i % 900 for i in range(300)]
    with pytest.raises(GlassformerError, match=r"has 300 tokens, 45 more than .* 256 positions"):
        bard.generate(ids)
    for new, kept in ((40, 216), (250, 128), (1, 255)):  # half of the context, at least
        length = {"max_new_tokens": new, "eos_token_id": None}
        left = bard.generate(ids, truncate="left", **length)
        right = bard.generate(ids, truncate="right", **length)
        assert left.tokens == bard.generate(ids[-kept:], **length).tokens
        assert right.tokens == bard.generate(ids[:kept], **length).tokens
        assert len(left.tokens) == len(right.tokens) == min(new, 256 - kept)


@pytest.fixture(scope="module")
def llama():
    """With rotary positions, which have no table that could end."""
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "vocab_size": 99}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1}
    return gf.create("llama-7b", seed=2, **sizes, **heads, max_position_embeddings=64)


@pytest.mark.parametrize("kind", ["unigram", "wordpiece", "byte-bpe", "bpe"])
def test_the_text_is_joined_to_the_prompt(kind):
    corpus = ["the cat sat on the mat and the dog sat on the log while the sun went down"] * 9
    tokenizer = train_tokenizer(kind, texts=corpus, vocab_size=300 if kind == "byte-bpe" else 60)
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": tokenizer.size}
    model = gf.create("llama-7b", seed=3, tokenizer=tokenizer, **sizes, **heads)
    ids, spaced = tokenizer.encode("the cat", special=False).ids, 0
    prompt = tokenizer.decode(ids)
    for seed in range(20):
        options = {"temperature": 2.0, "seed": seed, "max_new_tokens": 6, "eos_token_id": None}
        found = model.generate(ids, **options)
        assert prompt + found.text == tokenizer.decode([*ids, *found.tokens])
        assert "".join(piece.text for piece in model.stream(ids, **options)) == found.text
        spaced += found.text.startswith(" ")
        word = found.text.strip().split(" ")[0]
        ended = model.generate(ids, **options, stop_strings=[" " + word])
        if found.text.startswith(" " + word):
            assert (ended.text, ended.finish_reason) == ("", "string")
    assert spaced > 1


def test_a_regular_expression_sees_the_space_before_the_first_word():
    tokenizer = train_tokenizer("bpe", texts=["the cat sat on the mat 7 8 9"] * 9, vocab_size=50)
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": tokenizer.size}
    model = gf.create("llama-7b", seed=3, tokenizer=tokenizer, **sizes, **heads)
    found = model.generate("the cat", regex=" [7-9] mat", eos_token_id=tokenizer.special["eos"])
    assert re.fullmatch(" [7-9] mat", found.text) and found.finish_reason == "eos"


def test_a_prompt_longer_than_the_context_of_rotary_positions(llama):
    ids = [5 + i % 90 for i in range(80)]
    with pytest.raises(GlassformerError, match=r"has 80 tokens, 17 more .* 64 pos.*rope_scaling"):
        llama.generate(ids)
    with pytest.raises(GlassformerError, match="1 more than the model's 64 positions"):
        next(llama.stream(ids[:64]))
    length = {"max_new_tokens": 10, "eos_token_id": None}
    left = llama.generate(ids, truncate="left", **length)
    assert left.tokens == llama.generate(ids[-54:], **length).tokens and len(left.tokens) == 10
    assert len(llama.generate(ids[:60], **length).tokens) == 4
    assert llama(torch.tensor([ids])).logits.shape[1] == 80  # the computation has no limit


def test_the_source_of_an_encoder_decoder_may_be_too_long(bart):
    ids = [5 + i for i in range(20)]
    with pytest.raises(GlassformerError, match="has 20 tokens, 4 more than the model's 16"):
        bart.generate(ids)
    assert bart.generate(ids, truncate="left") == bart.generate(ids[4:])
    assert len(bart.generate(ids[:16], eos_token_id=None).tokens) == 15  # and the start token


def test_the_context_ends_a_text(bard):
    result = bard.generate([5] * 250, max_new_tokens=100, eos_token_id=None)
    assert (len(result.tokens), result.finish_reason) == (6, "length")


def test_max_length_counts_the_prompt(bard):
    ids = bard.tokenizer.encode(PROMPT).ids
    result = bard.generate(ids, max_length=len(ids) + 3)
    assert (len(result.tokens), result.finish_reason) == (3, "length")
    assert len(bard.generate(ids, max_length=9, max_new_tokens=7).tokens) == 7
    with pytest.raises(GlassformerError, match=r"max_length \(2\) leaves no room"):
        bard.generate(ids, max_length=2)


def test_an_end_token_and_its_absence(bard):
    plain = bard.generate(PROMPT, max_new_tokens=12)
    ended = bard.generate(PROMPT, max_new_tokens=12, eos_token_id=plain.tokens[4])
    assert ended.finish_reason == "eos"
    assert ended.tokens == plain.tokens[: plain.tokens.index(plain.tokens[4]) + 1]
    later = bard.generate(PROMPT, max_new_tokens=12, eos_token_id=plain.tokens[4], min_new_tokens=8)
    assert plain.tokens[4] not in later.tokens[:8]


def test_time_runs_for_each_text_from_its_own_beginning(bard, monkeypatch):
    """Texts that wait for their turn do not lose their time."""
    clock = itertools.count()  # a second every time that somebody looks
    monkeypatch.setattr("glassformer.generate.stops.time.monotonic", lambda: next(clock))
    options = {"batch_size": 1, "eos_token_id": None}
    results = bard.generate([PROMPT] * 12, max_time=8, max_new_tokens=3, **options)
    assert {one.finish_reason for one in results} == {"length"}
    assert next(clock) > 30
    late = bard.generate([PROMPT] * 2, max_time=8, max_new_tokens=20, **options)
    assert [(one.finish_reason, len(one.tokens)) for one in late] == [("time", 8)] * 2


def test_no_time_is_time_for_one_token(bard):
    for more in ({}, {"num_beams": 2}, {"penalty_alpha": 0.5, "top_k": 2}):
        result = bard.generate(PROMPT, max_time=1e-9, **more)
        assert (result.finish_reason, len(result.tokens)) == ("time", 1)


# --- stop strings ------------------------------------------------------------------------------


@pytest.mark.parametrize("start", range(0, 24, 3))
@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_stop_string_ends_the_text_before_it_wherever_tokens_end(bard, start, size):
    whole = bard.generate(PROMPT, max_new_tokens=30).text
    stop = whole[start : start + size]
    result = bard.generate(PROMPT, max_new_tokens=30, stop_strings=stop)
    assert result.finish_reason == "string"
    assert result.text == whole[: whole.index(stop)]
    assert stop in bard.tokenizer.decode(result.tokens)  # the tokens are what was made
    assert stop not in bard.tokenizer.decode(result.tokens[:-1])
    pieces = list(bard.stream(PROMPT, max_new_tokens=30, stop_strings=[stop]))
    assert "".join(piece.text for piece in pieces) == result.text
    assert [piece.token for piece in pieces] == result.tokens


def test_the_first_of_several_stop_strings(bard):
    whole = bard.generate(PROMPT, max_new_tokens=30).text
    stops = [whole[20:23], whole[6:9], "not there"]
    result = bard.generate(PROMPT, max_new_tokens=30, stop_strings=stops)
    assert result.text == whole[: min(whole.index(stop) for stop in stops[:2])]


def test_the_beginning_of_a_stop_string_comes_in_the_end(bard):
    whole = bard.generate(PROMPT, max_new_tokens=12)
    stop = whole.text[-3:] + "never"
    pieces = list(bard.stream(PROMPT, max_new_tokens=12, stop_strings=stop))
    assert "".join(piece.text for piece in pieces) == whole.text
    assert not "".join(piece.text for piece in pieces[:-1]).endswith(whole.text[-3:])


def test_stop_strings_of_beams_and_samples(bard):
    beams = {"num_beams": 3, "num_return_sequences": 3, "early_stopping": True}
    samples = {"do_sample": True, "seed": 4, "num_return_sequences": 3}
    for options in (beams, samples):
        result = bard.generate(PROMPT, max_new_tokens=60, stop_strings=",", **options)
        for one in (result, *result.alternatives):
            assert one.finish_reason == "string" and "," not in one.text


# --- streams and several results ---------------------------------------------------------------


def test_a_stream_is_the_text(bard):
    for options in (
        {},
        {"do_sample": True, "seed": 9},
        {"prompt_lookup_num_tokens": 3},
        {"penalty_alpha": 0.6, "top_k": 4},
    ):
        whole = bard.generate(PROMPT, max_new_tokens=20, **options)
        pieces = list(bard.stream(PROMPT, max_new_tokens=20, **options))
        assert "".join(piece.text for piece in pieces) == whole.text
        assert [piece.token for piece in pieces] == whole.tokens
        assert [piece.logprob for piece in pieces] == pytest.approx(whole.logprobs)


def test_what_cannot_be_streamed(bard):
    for options in ({"num_beams": 2}, {"do_sample": True, "num_return_sequences": 2}):
        with pytest.raises(GlassformerError, match="A stream is one text"):
            next(bard.stream(PROMPT, **options))


def test_several_sequences(bard):
    options = {"do_sample": True, "max_new_tokens": 12, "num_return_sequences": 3}
    result = bard.generate(PROMPT, **options)
    texts = [result.text, *(other.text for other in result.alternatives)]
    assert len(set(texts)) == 3
    alone = bard.generate(PROMPT, do_sample=True, max_new_tokens=12)
    assert alone.text == texts[0]  # the further ones change nothing


def test_a_result_as_json(bard):
    options = {"num_beams": 2, "num_return_sequences": 2, "max_new_tokens": 3, "tree": True}
    result = bard.generate(PROMPT, **options)
    said = result.record()
    names = [
        "text",
        "tokens",
        "logprobs",
        "finish_reason",
        "score",
        "alternatives",
        "unknown_ratio",
        "tree",
    ]
    assert list(said) == names
    assert said["alternatives"][0]["text"] == result.alternatives[0].text
    assert set(said["alternatives"][0]) == {"text", "tokens", "logprobs", "finish_reason", "score"}
    assert set(said["tree"][0]["kept"][0]) == {"beam", "token", "score"}
    plain = bard.generate(PROMPT, max_new_tokens=3).record()
    assert list(plain) == [name for name in names if name not in ("score", "tree")]


# --- tokens and expressions that cannot be -----------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"bad_words_ids": [[9999]]}, "names the token 9999, and the model's 1024 end at 1023"),
        ({"suppress_tokens": [9999]}, "names the token 9999"),
        ({"forced_bos_token_id": 9999}, "names the token 9999"),
        ({"forced_eos_token_id": 9999}, "names the token 9999"),
        ({"force_words_ids": [[9999]], "num_beams": 2}, "has the token 9999"),
        ({"prefix_allowed_tokens_fn": lambda row, ids: [9999]}, "names the token 9999"),
        ({"regex": "(["}, "is no regular expression"),
        ({"regex": "x", "eos_token_id": []}, "ended by a token, and the model has none"),
        ({"prompt_lookup_num_tokens": 2, "num_beams": 2}, "Guessing ahead is for one text"),
    ],
)
def test_what_cannot_be_met(bard, options, said):
    with pytest.raises(GlassformerError) as caught:
        bard.generate([5], max_new_tokens=4, **options)
    assert said in str(caught.value)


NOTHING_LEFT = {
    "regex": {"regex": "\N{SNOWMAN}"},
    "a function": {"prefix_allowed_tokens_fn": lambda row, ids: [] if len(ids) > 3 else [7]},
    "banned words": {"bad_words_ids": [[i] for i in range(1024)], "eos_token_id": []},
    "banned tokens": {"suppress_tokens": list(range(1024))},
    "n-grams": {"suppress_tokens": [*range(6), *range(9, 1024)], "no_repeat_ngram_size": 1},
    "too short to end": {"regex": "yes", "min_new_tokens": 9},
}
WAYS = {
    "greedy": {},
    "sampled": {"do_sample": True, "top_p": 0.9, "num_return_sequences": 2},
    "beam": {"num_beams": 3},
    "groups": {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 1.0},
    "sampled beam": {"num_beams": 2, "do_sample": True, "top_k": 5},
    "phrases": {"num_beams": 2, "force_words_ids": [[700]]},
    "contrastive": {"penalty_alpha": 0.5, "top_k": 3},
    "guessed": {"prompt_lookup_num_tokens": 2},
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("options", NOTHING_LEFT.values(), ids=NOTHING_LEFT)
def test_where_no_token_is_left_a_sentence_says_so(bard, options, way):
    options = {"max_new_tokens": 20, **options, **way}
    with pytest.raises(GlassformerError, match=r"^No token is left (at|after)") as caught:
        bard.generate([5], **options)
    assert next(iter(options.keys() - {"max_new_tokens", "eos_token_id", *way})) in str(
        caught.value
    )
    with pytest.raises(GlassformerError, match=r"^Prompt \d: No token is left"):
        bard.generate([[5], [6]], **options)


def test_a_stream_without_a_token_left(bard):
    pieces = bard.stream([5], prefix_allowed_tokens_fn=lambda row, ids: [7][: 4 - len(ids)])
    with pytest.raises(GlassformerError, match="No token is left after 3 new tokens"):
        for piece in pieces:
            assert piece.token == 7


def test_a_beam_without_a_token_left_leaves_the_search_to_the_others(bard):
    """What begins with 7 is a dead end; what begins with 8 is not."""

    def allowed(row, ids):
        return [7, 8] if len(ids) == 1 else [[9], []][int(ids[1]) == 7]

    options = {"max_new_tokens": 4, "num_beams": 2, "eos_token_id": []}
    found = bard.generate([5], prefix_allowed_tokens_fn=allowed, **options)
    assert found.tokens == [8, 9, 9, 9] and all(p > -50 for p in found.logprobs)


def test_contrastive_search_takes_no_forbidden_token(bard):
    options = {"penalty_alpha": 0.9, "top_k": 6, "max_new_tokens": 8, "eos_token_id": []}
    found = bard.generate([5], prefix_allowed_tokens_fn=lambda row, ids: [7, 8], **options)
    assert set(found.tokens) <= {7, 8}


# --- Ctrl-C ------------------------------------------------------------------------------------


def test_ctrl_c_keeps_what_was_finished(bard):
    asked = []

    def press(row, ids):
        asked.append(row)
        if len(asked) > 7:
            raise KeyboardInterrupt
        return range(1024)

    options = {"prefix_allowed_tokens_fn": press, "batch_size": 1, "max_new_tokens": 3}
    with pytest.raises(GenerationInterrupted) as caught:
        bard.generate([PROMPT, "KING:\n", "All:\n"], **options)
    finished = caught.value.finished
    assert sorted(finished) == [0, 1]
    assert finished[1] == bard.generate("KING:\n", max_new_tokens=3)
    assert bard.generate(PROMPT, max_new_tokens=3) == finished[0]  # and the model is as before
