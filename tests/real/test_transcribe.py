"""Whisper tiny.en transcribes a recording as transformers does, with the times of words."""

import pytest
import torch
import transformers
from openai_names import reference_of

import glassformer as gf
from glassformer.signals.wav import read_wav

pytestmark = pytest.mark.real
END = 50256
OPENAI = [(0.0, 0.7), (0.7, 1.22), (2.12, 2.22), (2.22, 2.76), (3.6, 3.8), (3.8, 4.14), (4.94, 5.2),
          (5.2, 5.92), (6.7, 6.94), (6.94, 7.44), (8.18, 8.48), (8.48, 8.74)]  # fmt: skip


@torch.no_grad()
@pytest.mark.parametrize("beams", [1, 5])
@pytest.mark.parametrize("repeats", [1, 4])
def test_segments_equal_the_reference(real, beams, repeats):
    path = real("whisper-tiny.en")
    model = gf.load(path)
    theirs = reference_of(model, torch.load(path, weights_only=True)["model_state_dict"])
    vars(theirs.generation_config).update(
        model.generation_config,
        max_initial_timestamp_index=50,
        is_multilingual=False,
        prev_sot_token_id=50360,
    )
    sound = read_wav(path.with_name("beckett.wav"))[0].repeat(repeats).numpy()
    extract = transformers.WhisperFeatureExtractor()
    features = extract(
        sound,
        sampling_rate=16_000,
        return_tensors="pt",
        return_attention_mask=True,
        truncation=False,
        padding="longest" if repeats > 3 else "max_length",
    )
    expected = theirs.generate(
        features.input_features,
        attention_mask=features.attention_mask,
        num_beams=beams,
        return_timestamps=True,
        return_segments=True,
        condition_on_prev_tokens=repeats > 3,
        temperature=0.0,
        logprob_threshold=-1.0,
        no_speech_threshold=0.6,
        compression_ratio_threshold=None,
    )["segments"][0]
    found = model.transcribe(
        sound,
        16_000,
        beam_size=beams,
        temperature=0.0,
        vad=False,
        compression_ratio_threshold=1e9,
    )
    assert [words(s.tokens) for s in found.segments] == [
        words(s["tokens"].tolist()) for s in expected
    ]
    for ours, other in zip(found.segments, expected, strict=True):
        assert ours.start == pytest.approx(float(other["start"]), abs=1e-3)
        assert ours.end == pytest.approx(float(other["end"]), abs=1e-3)


def test_words_have_times(real):
    path = real("whisper-tiny.en")
    found = gf.load(path).transcribe(
        path.with_name("beckett.wav"), word_timestamps=True, beam_size=1, vad=False
    )
    spoken = [(word.text, word.start, word.end) for word in found.words]
    assert [text for text, *_ in spoken][:4] == [" Ever", " tried,", " ever", " failed."]
    # of openai-whisper 20250625, with silence after the recording
    for (_, start, end), (first, last) in zip(spoken, OPENAI, strict=True):
        assert start == pytest.approx(first, abs=0.0201) and end == pytest.approx(last, abs=0.0201)


def words(tokens) -> list[int]:
    return [token for token in tokens if token < END]
