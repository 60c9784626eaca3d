"""Sounds, music and images that would take hours or gigabytes are refused, or read in blocks."""

from __future__ import annotations

import resource
import struct
import subprocess
import sys
import wave
import zlib
from pathlib import Path

import mido
import numpy as np
import pytest
import torch
from PIL import Image

from glassformer.errors import DataError, InputError
from glassformer.signals.audio_features import AudioProcessor
from glassformer.signals.image_processor import ImageProcessor
from glassformer.signals.midi import read_midi
from glassformer.signals.wav import read_wav, resample


def test_rates_without_a_common_divisor():
    """A sine stays a sine; the table of all 16,000 phases was 4 GB."""
    time = torch.arange(15_999) / 15_999
    found = resample(torch.sin(2 * torch.pi * 440 * time), 15_999, 16_000)
    expected = torch.sin(2 * torch.pi * 440 * torch.arange(16_000) / 16_000)
    assert len(found) == 16_000
    assert (found - expected)[100:-100].abs().max() < 1e-3


@pytest.mark.parametrize("rate", [0, 1, 999, 768_001, 2**31 - 1])
def test_a_rate_that_no_sound_has(rate, tmp_path):
    with pytest.raises(InputError, match="give its true rate"):
        resample(torch.zeros(100), rate, 16_000)
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setparams((1, 2, max(rate, 1), 0, "NONE", ""))
        file.writeframes(bytes(100))
    with pytest.raises(DataError, match="samples a second"):
        read_wav(tmp_path / "a.wav")


@pytest.mark.parametrize("named", [2**32 - 1, 2**31])
def test_a_length_that_the_file_does_not_have(named, tmp_path):
    """Python's module would reserve memory for all of it."""
    path = tmp_path / "a.wav"
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        file.writeframes(bytes(1000))
    content = bytearray(path.read_bytes())
    content[4:8] = content[40:44] = struct.pack("<I", named)
    path.write_bytes(content)
    before = resource.getrlimit(resource.RLIMIT_DATA)
    used = int(Path("/proc/self/status").read_text().split("VmData:")[1].split()[0]) * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (used + 2**29, before[1]))
    try:
        samples, rate = read_wav(path)
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)
    assert (len(samples), rate) == (500, 16_000)


def test_music_of_years(tmp_path):
    track = mido.MidiTrack([mido.Message("note_on", note=60, velocity=70, time=0)])
    track.append(mido.Message("note_off", note=60, time=2**28 - 1))
    mido.MidiFile(type=0, tracks=[track]).save(tmp_path / "a.mid")
    with pytest.raises(DataError, match="lasts 78 hours, and 24 are read"):
        read_midi(tmp_path / "a.mid")


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


@pytest.mark.parametrize("side", [10_000, 20_000, 2**31 - 1])
def test_an_image_that_unpacks_to_gigabytes(side, tmp_path):
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(10**6))) + chunk(b"IEND", b"")
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + body)
    with pytest.raises(DataError, match=r"a\.png (unpacks to|is not an image)"):
        ImageProcessor()(tmp_path / "a.png")


def test_what_pillow_logs_is_not_printed(tmp_path):
    """A TIFF file that claims 4,218 samples a pixel."""
    path = tmp_path / "a.tiff"
    Image.new("RGB", (4, 4)).save(path)
    content = path.read_bytes()
    at = content.index(struct.pack("<HHI", 277, 3, 1))  # SamplesPerPixel, one short number
    path.write_bytes(content[: at + 8] + struct.pack("<H", 4218) + content[at + 10 :])
    code = (
        "import sys; from glassformer.signals.image_processor import open_image\n"
        "from pathlib import Path; open_image(Path(sys.argv[1]))"
    )
    ended = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
    assert "samples per pixel" not in ended.stderr.lower()
    assert "is not an image that can be read" in ended.stderr


@pytest.mark.parametrize(
    "settings",
    ['{"image_std": [0, 1, 1]}', '{"image_mean": [1, 2]}', '{"size": 100000}', '{"size": 0}',
     '{"rescale_factor": NaN}', '{"image_mean": [Infinity, 0, 0]}', '{"resample": 2.0}'],
)  # fmt: skip
def test_settings_of_images_out_of_range(settings, tmp_path):
    (tmp_path / "preprocessor_config.json").write_text(settings)
    with pytest.raises(ValueError, match=r"preprocessor_config\.json (has|must give)"):
        ImageProcessor.load(tmp_path)


@pytest.mark.parametrize(
    "settings",
    ['{"sampling_rate": 1e9}', '{"n_fft": -1}', '{"hop_length": 1, "n_fft": 4000}',
     '{"chunk_length": 1e12}', '{"feature_size": 2.5}'],
)  # fmt: skip
def test_settings_of_sounds_out_of_range(settings, tmp_path):
    (tmp_path / "preprocessor_config.json").write_text(settings)
    with pytest.raises(ValueError, match=r"preprocessor_config\.json has"):
        AudioProcessor.load(tmp_path)


def test_a_photograph_is_read(tmp_path):
    from PIL import Image

    noise = np.random.default_rng(0).integers(0, 255, (600, 800, 3), np.uint8)
    Image.fromarray(noise).save(tmp_path / "a.jpg")
    assert ImageProcessor()(tmp_path / "a.jpg").shape == (1, 3, 224, 224)


def test_a_header_that_announces_gigabytes(tmp_path):
    file = tmp_path / "a.mid"
    file.write_bytes(b"MThd" + struct.pack(">I", 2**32 - 1) + bytes(20))
    before, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (virtual_memory() + 2**30, most))
    try:
        with pytest.raises(DataError, match="counts video frames"):
            read_midi(file)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, most))


def virtual_memory() -> int:
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[0]) * resource.getpagesize()
