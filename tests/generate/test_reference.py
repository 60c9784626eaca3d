"""The same tokens as transformers, for a model of every family that writes."""

from __future__ import annotations

import pytest
import torch
import transformers

LENGTHS = (4, 9, 6)
WHOLE = {
    "roberta": "generate gives it positions from 0, which its forward counts from padding_idx + 1",
    "xlm-roberta": "the same",
    "xlm": "generate appends a mask token, which a causal model has no use for",
    "xlnet": "generate asks by the second stream, which a causal model has no use for",
    "gemma": "the harness's config has a window, which Gemma 1 only heeds in its cache",
}
"""Here generate feeds the reference otherwise than its own forward expects: so the whole text is
read anew at every step."""


@pytest.fixture(autouse=True)
def whole_texts(request, monkeypatch):
    case = request.getfixturevalue("case")
    if case.name.model_type in WHOLE:

        def prepare(tokens, attention_mask=None, **_):
            return {"input_ids": tokens}

        monkeypatch.setattr(case.reference, "prepare_inputs_for_generation", prepare)


def theirs(case, prompt: list[int], **options) -> list[list[int]]:
    """The new tokens of every returned sequence, for a prompt by itself."""
    inputs = torch.as_tensor(prompt)[None]
    special = case.spec.tokens
    saved = case.model.generation_config or {}
    start = saved.get("decoder_start_token_id", special.start)
    more = {"decoder_start_token_id": start} if case.both else {}
    if not inputs.is_floating_point():
        more["attention_mask"] = torch.ones_like(inputs)
    out = transformers.GenerationMixin.generate(  # Whisper's own cuts sound up before and calls it
        case.reference,
        inputs,
        pad_token_id=0 if special.pad is None else special.pad,
        top_k=options.pop("top_k", 0),
        **more,
        **options,
    )
    first = 1 if case.both else len(prompt)
    return [cut(row[first:].tolist(), special.eos) for row in out]


def cut(tokens: list[int], eos) -> list[int]:
    """Without the padding behind the end."""
    return tokens[: tokens.index(eos) + 1] if eos in tokens else tokens


def ours(case, prompts, **options) -> list[list[list[int]]]:
    found = case.model.generate(prompts, **options)
    return [[one.tokens for one in (result, *result.alternatives)] for result in found]


OPTIONS = {
    "greedy": {},
    "repetition": {"repetition_penalty": 1.7},
    "ngrams": {"no_repeat_ngram_size": 2},
    "long": {"min_new_tokens": 9},
    "min_length": {"min_length": 12},
    "beam": {"num_beams": 4, "num_return_sequences": 3},
    "beam, shorter": {"num_beams": 3, "length_penalty": -1.0, "num_return_sequences": 2},
    "beam, longer": {"num_beams": 3, "length_penalty": 2.0, "early_stopping": "never"},
    "beam, early": {"num_beams": 4, "early_stopping": True, "num_return_sequences": 4},
    "beam, processed": {"num_beams": 3, "no_repeat_ngram_size": 2, "repetition_penalty": 1.3},
}


OF_EVERY_FAMILY = ("greedy", "beam")


def weakened(token_ids, scores):
    """Tokens of the text are less probable the more often they occur in it."""
    return scores.scatter_add(1, token_ids, torch.full(token_ids.shape, -0.5))


def option_sets():
    """Processors and lengths do not depend on the family."""
    for name, options in OPTIONS.items():
        marks = () if name in OF_EVERY_FAMILY else pytest.mark.over(once_per="kind")
        yield pytest.param(options, marks=marks, id=name)


@pytest.mark.parametrize("options", list(option_sets()))
def test_tokens_equal_the_references(case, options):
    prompts = case.prompts(LENGTHS, seed=5)
    options = {"max_new_tokens": 12, **options}
    found = ours(case, prompts, **options)
    for prompt, mine in zip(prompts, found, strict=True):
        assert mine == theirs(case, prompt, **options)


@pytest.mark.parametrize(
    "make",
    [
        lambda eos, some: {"bad_words_ids": [[some[0]], [some[1], some[2]], [some[3]]]},
        lambda eos, some: {"suppress_tokens": some[:4]},
        lambda eos, some: {"begin_suppress_tokens": some[:6]},
        lambda eos, some: {"forced_eos_token_id": some[5]},
        lambda eos, some: {"forced_bos_token_id": some[6]},
        lambda eos, some: {"prefix_allowed_tokens_fn": lambda row, text: some[: 3 + len(text) % 3]},
        lambda eos, some: {"logits_processor": [weakened]},
    ],
    ids=[
        *("bad words", "suppressed", "suppressed at first", "forced end", "forced first"),
        *("allowed", "a function"),
    ],
)
@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.over(once_per="kind")
def test_banned_and_forced_tokens(case, make, beams):
    prompts = case.prompts(LENGTHS, seed=6)
    plain = ours(case, prompts, max_new_tokens=8)
    some = list(dict.fromkeys(t for (row,) in plain for t in row if t != case.spec.tokens.eos))
    some += [t for t in range(10, 30) if t not in some]
    options = {"max_new_tokens": 8, "num_beams": beams, **make(case.spec.tokens.eos, some)}
    for prompt, mine in zip(prompts, ours(case, prompts, **options), strict=True):
        assert mine == theirs(case, prompt, **options)
