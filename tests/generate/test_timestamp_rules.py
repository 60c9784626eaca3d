"""Timestamps are generated under the rules of the reference."""

from __future__ import annotations

import pytest
import torch
import transformers
from quick import quick
from transformers.generation.logits_process import WhisperTimeStampLogitsProcessor
from whisper_models import voice, write_whisper

import glassformer as gf
from glassformer.generate.history import SequenceState
from glassformer.generate.timestamp_rules import TimestampRules

EOS, NO_TIMES, TOKENS = 10, 14, 30


@pytest.mark.parametrize("most", [None, 4])
@pytest.mark.parametrize("prompt", [1, 3])
def test_scores_equal_the_reference(most, prompt):
    random = torch.Generator().manual_seed(prompt)
    settings = transformers.GenerationConfig(
        eos_token_id=EOS,
        no_timestamps_token_id=NO_TIMES,
        max_initial_timestamp_index=most,
    )
    theirs = WhisperTimeStampLogitsProcessor(settings, begin_index=prompt)
    rules = TimestampRules(NO_TIMES, EOS, most)
    rows = 40
    before = torch.randint(0, TOKENS, (rows, prompt), generator=random)
    state = SequenceState.of(before.tolist(), [9] * rows, torch.device("cpu"))
    tokens = before
    for _ in range(8):
        scores = 3 * torch.randn(rows, TOKENS, generator=random)
        expected = theirs(tokens, scores.clone())
        found = rules(state, scores.clone())
        assert torch.equal(found, expected)
        new = expected.argmax(-1)
        tokens = torch.cat((tokens, new[:, None]), 1)
        state.append(new, torch.zeros(rows))


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = write_whisper(tmp_path_factory.mktemp("whisper"), ("en", "de"))
    theirs = transformers.WhisperForConditionalGeneration.from_pretrained(folder)
    return theirs, gf.load(folder)


@pytest.mark.parametrize("beams", quick([1, 5], 5))
def test_tokens_equal_the_reference(both, beams):
    theirs, model = both
    for seed in range(2):
        sound = model.processor(voice(0.48, seed), rate=16_000)
        options = {"return_timestamps": True, "language": "de", "num_beams": beams}
        wanted = theirs.generate(sound, **options, max_new_tokens=20, return_segments=True)
        found = model.generate(sound[0], **options, max_new_tokens=20)
        (segment,) = wanted["segments"][0]
        assert found.tokens == segment["tokens"].tolist()
        assert found.tokens[0] > model.generation_config["no_timestamps_token_id"]


def test_models_without_timestamps_say_so(both):
    _, model = both
    sound = model.processor(voice(0.48), rate=16_000)[0]
    with pytest.raises(gf.GlassformerError, match="it has no timestamps"):
        model.generate(sound, return_timestamps=True, no_timestamps_token_id=10_000)
    with pytest.raises(gf.GlassformerError, match="is an option of speech models"):
        gf.load("zoo:stories").generate("Once", return_timestamps=True)
