"""Audio is read block by block as it would be at once; what is no sound is named."""

from __future__ import annotations

import io
import struct
import sys
import wave
import zipfile

import numpy as np
import pytest
import torch
from whisper_models import voice, write_wav

import glassformer as gf
from glassformer.signals import audio_stream
from glassformer.signals.audio_features import AudioProcessor
from glassformer.signals.audio_stream import open_audio, resampled
from glassformer.signals.mel_stream import MelStream, padded_window
from glassformer.signals.wav import read_wav, resample


def mono(sound, rate=None):
    return torch.cat(list(open_audio(sound, rate).mono(16_000)))


@pytest.mark.parametrize("rate", [8_000, 16_000, 22_050, 44_100, 48_000])
def test_blocks_equal_the_whole(tmp_path, monkeypatch, rate):
    monkeypatch.setattr(audio_stream, "BYTES", 5_000)
    monkeypatch.setattr(audio_stream, "BLOCK", 3_000)
    both = np.stack((voice(0.7, 1), voice(0.7, 2)), 1)
    path = write_wav(tmp_path / "a.wav", both, rate)
    whole, _ = read_wav(path)
    assert torch.equal(mono(path), resample(whole, rate, 16_000))
    left = torch.cat(list(open_audio(path).mono(rate, 0)))
    assert np.abs(left.numpy() - both[:, 0]).max() < 1e-4
    parts = resampled(iter(whole.split(777)), rate, 11_025)
    assert torch.equal(torch.cat(list(parts)), resample(whole, rate, 11_025))


@pytest.mark.parametrize("seconds", [0.005, 0.1, 0.47])
def test_frames_equal_those_of_the_processor(seconds):
    processor = AudioProcessor(bands=20, seconds=0.48)
    sound = torch.from_numpy(voice(seconds))
    stream = MelStream(processor)
    frames = [stream.push(part) for part in sound.split(330)]
    frames = torch.cat([*frames, stream.finish()], 1)[:, :48]
    window = padded_window(frames, 48, float(frames.max()), silence=True)
    assert stream.content == len(sound) // 160
    assert torch.allclose(window, processor(sound)[0], atol=1e-5)


def test_arrays(tmp_path):
    sound = voice(0.2)
    assert torch.equal(mono(sound, 16_000), torch.from_numpy(sound))
    whole = (sound * 32767).astype(np.int16)
    assert torch.equal(mono(whole, 16_000), mono(write_wav(tmp_path / "a.wav", sound)))
    assert torch.equal(mono([0.5, -0.5], 16_000), torch.tensor([0.5, -0.5]))
    with pytest.raises(gf.GlassformerError, match="give rate"):
        open_audio(sound)
    with pytest.raises(gf.GlassformerError, match=r"array of \[sample\]"):
        open_audio(np.zeros((2, 2, 2)), 16_000)


def test_standard_input(tmp_path, monkeypatch):
    path = write_wav(tmp_path / "a.wav", voice(0.3))

    class Pipe(io.BufferedReader):
        def seekable(self):
            return False

    with Pipe(io.FileIO(path)) as pipe:
        monkeypatch.setattr(sys, "stdin", type("Input", (), {"buffer": pipe}))
        assert torch.equal(mono("-"), mono(path))


def header(rate=16_000, channels=1, bits=16, size=3_200, kind=1) -> bytes:
    frame = channels * bits // 8
    form = struct.pack("<HHIIHH", kind, channels, rate, rate * frame, frame, bits)
    return (
        b"".join(
            (
                b"RIFF",
                struct.pack("<I", min(36 + size, 2**32 - 1)),
                b"WAVEfmt ",
                struct.pack("<I", 16),
                form,
            )
        )
        + b"data"
        + struct.pack("<I", size)
    )


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.txt", "text")
    return file.getvalue()


BAD = {
    "empty": (b"", "is empty"),
    "cut in its header": (header()[:30], "damaged .wav file|ends too early"),
    "ten hours": (header(size=16_000 * 2 * 36_000) + bytes(3_200), "its header says 36,000.0 s"),
    "truncated": (header(size=32_000) + bytes(3_200), r"ends after 0.1 s.* says 1.0 s"),
    "8 bits at 1 kHz": (header(1_000, 1, 8) + bytes(3_200), "1,000 samples a second of 8 bits"),
    "no sound": (b"RIFF" + bytes(40), "not a PCM .wav file|cannot be read as sound"),
    "a zip file": (zipped(), "not a PCM .wav file|cannot be read as sound"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "said"), BAD.values(), ids=BAD)
def test_bad_files_are_named(tmp_path, content, said):
    path = tmp_path / "a.wav"
    path.write_bytes(content)
    with pytest.raises(gf.GlassformerError, match=said) as error:
        mono(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_missing_files_and_samples_that_are_no_numbers(tmp_path):
    with pytest.raises(gf.GlassformerError, match="does not exist"):
        open_audio(tmp_path / "none.wav")
    sound = voice(0.2)
    sound[1_600] = np.nan
    with pytest.raises(gf.GlassformerError, match=r"not a finite number at 0\.10 s"):
        mono(sound, 16_000)


def test_a_header_of_a_pipe_and_many_channels(tmp_path):
    data = (voice(0.1) * 32767).astype("<i2").tobytes()
    (tmp_path / "a.wav").write_bytes(header(size=2**32 - 1) + data)
    assert len(mono(tmp_path / "a.wav")) == 1_600
    assert open_audio(tmp_path / "a.wav").seconds is None
    wide = np.repeat(voice(0.1)[:, None], 32, 1)
    assert len(mono(write_wav(tmp_path / "b.wav", wide))) == 1_600


def test_other_formats(tmp_path):
    av = pytest.importorskip("av")
    sound = (voice(1.0) * 32767).astype(np.int16)[None]
    codecs = {"flac": "flac", "mp3": "libmp3lame", "ogg": "libopus", "m4a": "aac", "mp4": "aac"}
    for ending, codec in codecs.items():
        name = f"a.{ending}"
        with av.open(str(tmp_path / name), "w") as file:
            stream = file.add_stream(codec, rate=16_000, layout="mono")
            adapt = av.AudioResampler(
                format=stream.format or "s16",
                layout="mono",
                rate=16_000,
                frame_size=stream.codec_context.frame_size or None,
            )
            frame = av.AudioFrame.from_ndarray(sound, format="s16", layout="mono")
            frame.rate = 16_000
            for part in (*adapt.resample(frame), *adapt.resample(None), None):
                for packet in stream.encode(part):
                    file.mux(packet)
        heard = open_audio(tmp_path / name)
        assert heard.seconds == pytest.approx(1.0, abs=0.1)
        found = torch.cat(list(heard.mono(16_000)))
        assert len(found) == pytest.approx(16_000, abs=3_000)
        if codec == "flac":
            assert torch.allclose(found, mono(sound[0], 16_000), atol=1e-4)


def test_a_codec_that_nobody_knows(tmp_path):
    pytest.importorskip("av")
    path = write_wav(tmp_path / "a.wav", voice(0.1))
    content = bytearray(path.read_bytes())
    struct.pack_into("<H", content, 20, 0x9999)  # the format's number
    path.write_bytes(content)
    with pytest.raises(gf.DataError, match="a format that FFmpeg does not know"):
        open_audio(path)


def test_without_pyav_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    (tmp_path / "a.flac").write_bytes(b"fLaC" + bytes(100))
    with pytest.raises(gf.GlassformerError, match=r"pip install 'glassformer\[audio\]'"):
        open_audio(tmp_path / "a.flac")
    with wave.open(str(tmp_path / "b.wav"), "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        file.writeframes(bytes(3_200))
    assert len(mono(tmp_path / "b.wav")) == 1_600
