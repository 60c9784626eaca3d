"""Whisper tiny.en as OpenAI published it: numbers, tokens and text of the reference, on speech."""

import pytest
import torch
import transformers
from openai_names import reference_of
from transformers.models.whisper.configuration_whisper import NON_SPEECH_TOKENS

import glassformer as gf
from glassformer.signals.wav import read_wav

pytestmark = pytest.mark.real
SPACE, ENGLISH, TRANSLATE, NO_TIMES = 220, 50257, 50357, 50362


@torch.no_grad()
def test_tiny_en_hears_what_the_reference_hears(real):
    path = real("whisper-tiny.en")
    spoken = path.with_name("beckett.wav")
    model = gf.load(path)
    theirs = reference_of(model, torch.load(path, weights_only=True)["model_state_dict"])
    sound = model.processor(spoken)
    wave, extract = read_wav(spoken)[0].numpy(), transformers.WhisperFeatureExtractor()
    expected = extract(wave, sampling_rate=16_000, return_tensors="pt").input_features
    assert float((sound - expected).abs().max()) <= 1e-5

    tasks = [TRANSLATE, TRANSLATE + 1]  # which the reference's list lacks
    assert model.generation_config["suppress_tokens"] == sorted([*NON_SPEECH_TOKENS, *tasks])
    (written,) = model.generate(sound, max_new_tokens=60)
    theirs.generation_config.no_timestamps_token_id = NO_TIMES
    theirs.generation_config.suppress_tokens = NON_SPEECH_TOKENS
    theirs.generation_config.begin_suppress_tokens = [SPACE, ENGLISH - 1]
    answer = theirs.generate(sound, do_sample=False, num_beams=1, max_new_tokens=60)[0].tolist()
    assert words(written.tokens) == words(answer) and len(words(answer)) > 10
    assert "fail better" in written.text.lower()

    tokens = torch.tensor([[ENGLISH, *written.tokens]])
    logits = model(decoder_input_ids=tokens, input_features=sound).logits
    difference = logits - theirs(input_features=sound, decoder_input_ids=tokens).logits
    assert float(difference.abs().max()) <= 1e-5


def words(tokens: list[int]) -> list[int]:
    return [token for token in tokens if token < ENGLISH - 1]
