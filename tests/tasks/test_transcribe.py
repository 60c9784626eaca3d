"""Transcripts of recordings: the same segments as the reference, and what options do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers
from quick import quick
from whisper_models import RATE, voice, write_wav, write_whisper

import glassformer as gf
from glassformer.tasks.speech import audio_feed
from glassformer.tasks.transcribe import Transcriber

PLAIN = {"temperature": 0.0, "vad": False, "compression_ratio_threshold": 1e9,
         "logprob_threshold": -1e9}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_whisper(tmp_path_factory.mktemp("whisper"), ("en", "de", "yue"))


@pytest.fixture(scope="module")
def model(folder):
    return gf.load(folder)


@pytest.fixture(scope="module")
def english(tmp_path_factory):
    return gf.load(write_whisper(tmp_path_factory.mktemp("english")))


def segments_of_reference(theirs, processor, sound, **options):
    """The start, end and tokens of each segment, without a second timestamp at its end."""
    seconds = processor.seconds
    extractor = transformers.WhisperFeatureExtractor(
        feature_size=processor.bands, chunk_length=1, n_fft=processor.window
    )
    extractor.n_samples = processor.samples
    long = len(sound) > processor.samples
    features = extractor(
        sound,
        sampling_rate=RATE,
        return_tensors="pt",
        return_attention_mask=True,
        truncation=False,
        padding="longest" if long else "max_length",
        max_length=round(seconds * RATE),
    )
    found = theirs.generate(
        features.input_features,
        attention_mask=features.attention_mask,
        return_timestamps=True,
        return_segments=True,
        temperature=0.0,
        **options,
    )
    return [
        (round(float(s["start"]), 2), round(float(s["end"]), 2), trimmed(s["tokens"].tolist()))
        for s in found["segments"][0]
    ]


def trimmed(tokens: list[int]) -> list[int]:
    kept = [token for token in tokens if token != 256]
    return kept[:-1] if len(kept) > 1 and min(kept[-2:]) > 265 else kept


@pytest.mark.parametrize(
    ("beams", "told"), quick([(1, False), (1, True), (5, False), (5, True)], (1, True), (5, False))
)
def test_long_audio_has_the_segments_of_the_reference(folder, model, beams, told):
    theirs = transformers.WhisperForConditionalGeneration.from_pretrained(folder).eval()
    sound = voice(1.3)
    expected = segments_of_reference(
        theirs,
        model.processor,
        sound,
        language="de",
        num_beams=beams,
        condition_on_prev_tokens=told,
        max_new_tokens=24,
    )
    found = model.transcribe(
        sound,
        RATE,
        language="de",
        beam_size=beams,
        condition_on_previous_text=told,
        max_new_tokens=24,
        **PLAIN,
    )
    assert len(expected) > 2
    assert [
        (round(s.start, 2), round(s.end, 2), list(s.tokens)) for s in found.segments
    ] == expected


def test_the_language_is_detected_with_its_probability(folder, model):
    theirs = transformers.WhisperForConditionalGeneration.from_pretrained(folder).eval()
    sound = voice(0.4)
    start = torch.tensor([[257]])
    with torch.no_grad():
        logits = theirs(model.processor(sound), decoder_input_ids=start).logits[0, -1]
    ids = list(model.generation_config["lang_to_id"].values())
    expected = logits[ids].softmax(-1)
    found = model.transcribe(sound, RATE, **PLAIN)
    assert found.language == ("en", "de", "yue")[int(expected.argmax())]
    assert found.language_probability == pytest.approx(float(expected.max()), abs=1e-5)
    given = model.transcribe(sound, RATE, language="german", **PLAIN)
    assert (given.language, given.language_probability) == ("de", 1.0)


def test_rate_channels_and_files_make_no_difference(model, tmp_path):
    sound = (voice(1) * 32767).astype(np.int16)
    wanted = model.transcribe(sound, RATE, **PLAIN)
    assert wanted.segments and wanted.duration == 1.0
    path = write_wav(tmp_path / "a.wav", sound / 32767)
    assert model.transcribe(path, **PLAIN) == wanted
    both = np.stack((sound, sound))
    assert model.transcribe(both, RATE, **PLAIN) == wanted
    separate = model.transcribe(both, RATE, channels="separate", **PLAIN)
    assert [s.channel for s in separate.segments[:2]] == [0, 1]
    assert [s for s in separate.segments if s.channel == 1] == [
        replace(s, id=t.id, channel=1)
        for s, t in zip(wanted.segments, separate.segments[1::2], strict=True)
    ]


def test_a_part_of_a_recording(model):
    sound = voice(1.2)
    part = model.transcribe(sound, RATE, offset=0.5, duration=0.4, **PLAIN)
    alone = model.transcribe(sound[8_000:14_400], RATE, **PLAIN)
    assert part.duration == alone.duration == 0.4
    assert [(s.tokens, round(s.start - 0.5, 5)) for s in part.segments] == [
        (s.tokens, round(s.start, 5)) for s in alone.segments
    ]


def test_words_cover_the_text_in_order(model, english):
    for one in (model, english):
        found = one.transcribe(voice(1), RATE, word_timestamps=True, **PLAIN)
        for segment in found.segments:
            spoken = "".join(word.text for word in segment.words)
            assert spoken.replace("\ufffd", "") == segment.text.replace("\ufffd", "")
        times = [time for word in found.words for time in (word.start, word.end)]
        assert all(0 <= time <= 1.5 for time in times)
        assert all(0 <= word.probability <= 1 for word in found.words)


@pytest.fixture(params=["energy", "silero"])
def gate(request, monkeypatch) -> str:
    if request.param == "silero":
        pytest.importorskip("silero_vad")
    else:
        monkeypatch.setattr(audio_feed, "weights_path", lambda: None)
    return request.param


def test_silence_noise_hum_and_chords_have_no_text(model, gate):
    time = np.arange(10 * RATE) / RATE
    chord = sum(np.sin(2 * np.pi * f * time) for f in (261.63, 329.63, 392.0))
    sounds = {
        "zeros": np.zeros(10 * RATE),
        "noise": 0.1 * np.random.default_rng(0).standard_normal(10 * RATE),
        "hum": 0.3 * np.sin(2 * np.pi * 60 * time),
        "chord": 0.2 * chord,
    }
    for name, sound in sounds.items():
        found = model.transcribe(sound, RATE)
        assert found.text == "" and found.duration == 10.0, name
    if gate == "energy":  # the sound has the loudness of a voice, and not its tones
        assert model.transcribe(voice(3), RATE, temperature=0.0).segments


def test_texts_below_a_threshold_are_decoded_again(model):
    sound = voice(0.4)
    low = model.transcribe(sound, RATE, **{**PLAIN, "temperature": (0.0, 0.2, 0.4)})
    assert {s.temperature for s in low.segments} == {0.0}
    options = {**PLAIN, "logprob_threshold": 0.0, "no_speech_threshold": 1.0}
    again = model.transcribe(sound, RATE, **{**options, "temperature": (0.0, 0.2, 0.4)})
    assert {s.temperature for s in again.segments} == {0.4}
    silent = {**options, "no_speech_threshold": -1.0}
    assert not model.transcribe(sound, RATE, **silent).segments


def test_batches_find_what_the_windows_say(model):
    sound = voice(3)
    found = model.transcribe(sound, RATE, batch_size=4, temperature=0.0, language="en")
    one = model.transcribe(sound, RATE, batch_size=2, temperature=0.0, language="en")
    assert [(s.start, s.tokens) for s in found.segments] == [
        (s.start, s.tokens) for s in one.segments
    ]
    starts = [segment.start for segment in found.segments]
    assert starts == sorted(starts)


def test_a_short_window_says_that_it_may_differ(model):
    sound = voice(0.2)
    assert model.transcribe(sound, RATE, **PLAIN).padded
    short = model.transcribe(sound, RATE, pad=False, **PLAIN)
    assert not short.padded and short.record()["padded"] is False


def test_prompts_come_before_the_text(model):
    transcriber = Transcriber(model, hotwords="ab", initial_prompt="cd", language="en")
    (transcription,) = transcriber.start(voice(0.4), RATE)
    tokens = transcriber.engine.tokens
    before, words = tokens.previous, [tokens.encode("ab"), tokens.encode("cd")]
    start = [tokens.start, tokens.language("en"), tokens.tasks["transcribe"]]
    assert transcription._prompt(transcription.said) == [before, *words[0], *words[1], *start]
    long = Transcriber(model, initial_prompt="x" * 100, language="en")
    (transcription,) = long.start(voice(0.4), RATE)
    assert len(transcription._prompt(transcription.said)) == 32 + 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"language": "klingon"}, "Whisper has no language 'klingon'"),
        ({"task": "sing"}, "The task is one of translate, transcribe"),
        ({"beam_size": 0}, "beam_size must be 1 or more"),
        ({"channels": "left"}, 'channels is "mix" or "separate"'),
        ({"offset": -1.0}, "seconds from 0 on"),
        ({"beams": 3}, "There is no option 'beams' of transcribe"),
        ({"hallucination_silence_threshold": 2.0}, "needs word_timestamps"),
    ],
)
def test_wrong_options_are_named(model, options, said):
    with pytest.raises(gf.GlassformerError, match=said):
        model.transcribe(voice(0.2), RATE, **options)


def test_models_of_one_language_know_english(english):
    assert english.transcribe(voice(0.4), RATE, language="en", **PLAIN).language == "en"
    with pytest.raises(gf.GlassformerError, match="knows English only, not 'de'"):
        english.transcribe(voice(0.4), RATE, language="de")
    with pytest.raises(gf.GlassformerError, match="leave task out"):
        english.transcribe(voice(0.4), RATE, task="translate", **PLAIN)


def test_other_models_do_not_transcribe():
    with pytest.raises(gf.GlassformerError, match="needs a model that writes about sound"):
        gf.load("zoo:stories").transcribe(voice(0.2), RATE)
