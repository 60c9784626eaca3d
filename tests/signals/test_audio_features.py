"""Audio features, compared with the reference's, and .wav files."""

from __future__ import annotations

import json
import wave

import numpy as np
import pytest
import torch
import transformers

import glassformer as gf
from glassformer.signals.audio_features import AudioProcessor
from glassformer.signals.wav import read_wav, resample


def noise(samples: int, seed: int = 0) -> np.ndarray:
    loudness = np.linspace(0, 0.5, samples)
    return (np.random.default_rng(seed).standard_normal(samples) * loudness).astype(np.float32)


def tone(hertz: float, rate: int, seconds: float = 0.5) -> torch.Tensor:
    times = torch.arange(round(rate * seconds), dtype=torch.float64) / rate
    return torch.sin(2 * torch.pi * hertz * times).float()


@pytest.mark.parametrize("bands", [80, 128])
@pytest.mark.parametrize("seconds", [0.05, 2.7, 30.0, 31.3])
def test_spectrograms_equal_the_references(bands, seconds):
    sounds = [noise(round(16_000 * seconds), seed) for seed in range(2)]
    extractor = transformers.WhisperFeatureExtractor(feature_size=bands)
    theirs = extractor(sounds, sampling_rate=16_000, return_tensors="pt").input_features
    ours = AudioProcessor(bands=bands)(*sounds)
    assert ours.shape == theirs.shape == (2, bands, 3000)
    assert float((ours - theirs).abs().max()) <= 1e-5
    short = extractor(
        sounds, sampling_rate=16_000, return_tensors="pt", padding="do_not_pad"
    ).input_features
    assert float((AudioProcessor(bands=bands)(*sounds, pad=False) - short).abs().max()) <= 1e-5


def test_settings_are_read_and_written_as_the_reference_does(tmp_path):
    other = {"feature_size": 40, "hop_length": 80, "n_fft": 200, "chunk_length": 2}
    transformers.WhisperFeatureExtractor(**other).save_pretrained(tmp_path / "theirs")
    reader = AudioProcessor.load(tmp_path / "theirs")
    assert reader == AudioProcessor(bands=40, hop=80, window=200, seconds=2)
    reader.save(tmp_path / "ours")
    theirs = transformers.WhisperFeatureExtractor.from_pretrained(tmp_path / "ours")
    sound = noise(20_000)
    expected = theirs(sound, sampling_rate=16_000, return_tensors="pt").input_features
    assert float((reader(sound) - expected).abs().max()) <= 1e-5
    settings = json.loads((tmp_path / "ours" / "preprocessor_config.json").read_text())
    nested = {"feature_extractor": settings}
    (tmp_path / "processor_config.json").write_text(json.dumps(nested))
    assert AudioProcessor.load(tmp_path) == reader


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("channels", [1, 2])
def test_wave_files_of_every_width(tmp_path, size, channels):
    path = tmp_path / "sound.wav"
    samples = np.clip(noise(300 * channels).reshape(-1, channels), -0.99, 0.99)
    whole = np.round(samples.astype(np.float64) * 2 ** (8 * size - 1)).astype(np.int64)
    stored = whole + 128 if size == 1 else whole
    data = b"".join(int(n).to_bytes(size, "little", signed=size > 1) for n in stored.flatten())
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(size)
        file.setframerate(16_000)
        file.writeframes(data)
    found, rate = read_wav(path)
    assert rate == 16_000 and found.shape == (300,)
    exact = (whole / 2 ** (8 * size - 1)).mean(1)
    assert np.abs(found.numpy() - exact).max() < 1e-7
    assert torch.equal(AudioProcessor()(path), AudioProcessor()(found))


@pytest.mark.parametrize("rate", [8_000, 22_050, 44_100, 48_000])
def test_resampling_keeps_a_tone_and_its_time(rate):
    new = resample(tone(440.0, rate), rate, 16_000)
    expected = tone(440.0, 16_000)
    assert new.shape == expected.shape
    assert float((new - expected)[400:-400].abs().max()) < 2e-3  # away from the ends


def test_resampling_leaves_out_what_is_too_high():
    assert float(resample(tone(12_000.0, 48_000), 48_000, 16_000)[400:-400].abs().max()) < 2e-3
    assert float(resample(tone(6_500.0, 48_000), 48_000, 16_000)[400:-400].abs().max()) > 0.99


def test_other_rates_are_brought_to_the_readers():
    reader = AudioProcessor(seconds=1)
    far = reader(tone(440.0, 48_000, 1.0), rate=48_000) - reader(tone(440.0, 16_000, 1.0))
    loud = reader(tone(440.0, 16_000, 1.0)) > 0.5
    assert float(far[loud][5:-5].abs().mean()) < 0.02


def spoiled(tmp_path, content: bytes):
    path = tmp_path / "sound.wav"
    path.write_bytes(content)
    return path


def test_bad_sounds_get_one_sentence(tmp_path):
    reader = AudioProcessor()
    with pytest.raises(gf.GlassformerError, match="does not exist"):
        reader(tmp_path / "none.wav")
    with pytest.raises(gf.GlassformerError, match=r"PCM \.wav file .* ffmpeg"):
        reader(spoiled(tmp_path, b"fLaC and so on"))
    with pytest.raises(gf.GlassformerError, match="between -1 and 1 in one row"):
        reader(np.zeros((2, 500), np.float32))
    with pytest.raises(gf.GlassformerError, match="divide whole numbers"):
        reader(np.zeros(500, np.int16))
    with pytest.raises(gf.GlassformerError, match="less than a frame"):
        reader(noise(100), pad=False)
    with pytest.raises(gf.GlassformerError, match="different lengths"):
        reader(noise(1000), noise(2000), pad=False)
    with pytest.raises(gf.GlassformerError, match="true rate"):
        reader(noise(1000), rate=0)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"feature_extractor_type": "Wav2Vec2FeatureExtractor"}, "for a Wav2Vec2FeatureExtractor"),
        ({"dither": 0.1}, "sets dither to 0.1"),
        ({"feature_size": "80"}, "has feature_size = '80'"),
    ],
)
def test_settings_that_are_not_ours_are_named(tmp_path, settings, said):
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(settings))
    with pytest.raises(gf.GlassformerError, match=said):
        AudioProcessor.load(tmp_path)


def test_a_model_brings_its_reader(tmp_path):
    model = gf.create("whisper-tiny", encoder_layers=1, decoder_layers=1, vocab_size=60, d_model=12,
                      encoder_ffn_dim=8, decoder_ffn_dim=8)  # fmt: skip
    assert model.processor == AudioProcessor()
    model.save(tmp_path)
    theirs = transformers.WhisperFeatureExtractor.from_pretrained(tmp_path)
    assert theirs.nb_max_frames == 3000
    path = tmp_path / "preprocessor_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "processor_class": "X"}))
    again = gf.load(tmp_path)
    assert again.processor == AudioProcessor()
    again.save(tmp_path / "again")
    assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes()
    assert gf.create("bert-base", num_hidden_layers=1, vocab_size=9).processor is None
