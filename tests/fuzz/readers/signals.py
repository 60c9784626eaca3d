"""Sounds, MIDI files and images."""

from __future__ import annotations

import io
import struct
import wave
import zlib
from collections.abc import Iterator
from pathlib import Path
from random import Random

import mido
import numpy as np
import torch
from PIL import Image

from glassformer.signals.audio_features import AudioProcessor
from glassformer.signals.audio_stream import open_audio
from glassformer.signals.image_processor import ImageProcessor
from glassformer.signals.midi import VOCABULARY, decode, encode, read_midi
from glassformer.signals.wav import read_wav
from tests.fuzz.mutate import put_number
from tests.fuzz.registry import Sample, SilentlyWrongError, reader

PREPARED = AudioProcessor(seconds=1)
IMAGES = ImageProcessor(size=(8, 8))


def read_sound(folder: Path) -> None:
    sound, rate = read_wav(folder / "a.wav")
    if sound.ndim != 1 or rate < 1 or not bool((sound.abs() <= 1).all()):
        raise SilentlyWrongError(f"{tuple(sound.shape)} at {rate} Hz, up to {sound.abs().max()}")
    spectrogram = PREPARED(folder / "a.wav")
    if not bool(spectrogram.isfinite().all()):
        raise SilentlyWrongError("the spectrogram is not finite")


def change_wav(rng: Random, content: bytes) -> bytes:
    """Changes a number of the header: channels, rate, bytes per second, width, sizes."""
    data = bytearray(content)
    at, form = rng.choice(((4, "<I"), (16, "<I"), (20, "<H"), (22, "<H"), (24, "<I"), (24, "<I"),
                           (28, "<I"), (32, "<H"), (34, "<H"), (40, "<I")))  # fmt: skip
    value = rng.choice((0, 1, 2, 3, 7, 8, 24, 32, 15_999, 44_101, 65_535, 2**31 - 1, 2**32 - 1))
    struct.pack_into(form, data, at, value % 2 ** (8 * struct.calcsize(form)))
    return bytes(data)


@reader("wav", read=read_sound, mutations={".wav": change_wav})
def sounds() -> Iterator[Sample]:
    for rate, channels, width in ((16_000, 1, 2), (8_000, 2, 1), (44_100, 1, 3), (15_999, 1, 2)):
        file = io.BytesIO()
        with wave.open(file, "wb") as out:
            out.setparams((channels, width, rate, 0, "NONE", ""))
            out.writeframes(np.random.default_rng(0).bytes(1500 // width * width))
        yield Sample({"a.wav": file.getvalue()})


def read_stream(folder: Path) -> None:
    stream = open_audio(folder / "a.wav")
    count = 0
    for block in stream.mono(16_000):
        count += len(block)
        if block.ndim != 1 or not bool(block.isfinite().all()):
            raise SilentlyWrongError(f"a block of {tuple(block.shape)}")
    if stream.seconds is not None and abs(count / 16_000 - stream.seconds) > 0.1:
        raise SilentlyWrongError(f"{count} samples of {stream.seconds} s")


@reader("audio stream", read=read_stream, mutations={".wav": change_wav})
def streams() -> Iterator[Sample]:
    yield from sounds()


def read_music(folder: Path) -> None:
    notes = read_midi(folder / "a.mid")
    ids = encode(notes, ends=True)
    if not all(0 <= one < VOCABULARY for one in ids):
        raise SilentlyWrongError("an event is none of the vocabulary")
    decode(ids)


def change_midi(rng: Random, content: bytes) -> bytes:
    """Puts the longest time, or another number, between two messages."""
    at = rng.randrange(14, len(content))
    long = rng.choice((b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff\xff\x7f", b"\x81\x00"))
    return rng.choice((content[:at] + long + content[at:], put_number(rng, content)))


@reader("midi", read=read_music, mutations={".mid": change_midi})
def music() -> Iterator[Sample]:
    for kind in (0, 1):
        file = mido.MidiFile(type=kind)
        for track in range(kind + 1):
            messages = mido.MidiTrack([mido.MetaMessage("set_tempo", tempo=400_000, time=10)])
            for i in range(12):
                messages.append(mido.Message("note_on", note=60 + i, velocity=70, time=30))
                messages.append(mido.Message("control_change", control=64, value=i * 9, time=5))
                messages.append(mido.Message("note_off", note=60 + i, time=200 * (track + 1)))
            file.tracks.append(messages)
        out = io.BytesIO()
        file.save(file=out)
        yield Sample({"a.mid": out.getvalue()})


def read_image(folder: Path) -> None:
    path = next(folder.iterdir())
    values = IMAGES(path)
    if values.shape != (1, 3, 8, 8) or not bool(torch.isfinite(values).all()):
        raise SilentlyWrongError(f"pixels of {tuple(values.shape)}")


def change_png(rng: Random, content: bytes) -> bytes:
    """Changes the header of a PNG, or its pixels, with a valid checksum."""
    data = bytearray(content)
    if rng.random() < 0.7:
        at, form = rng.choice(((16, ">I"), (20, ">I"), (24, ">B"), (25, ">B"), (28, ">B")))
        value = rng.choice((0, 1, 2, 3, 6, 16, 4_000, 16_000, 50_000, 2**31 - 1, 2**32 - 1))
        struct.pack_into(form, data, at, value % 2 ** (8 * struct.calcsize(form)))
        struct.pack_into(">I", data, 29, zlib.crc32(data[12:29]))
        return bytes(data)
    bomb = zlib.compress(bytes(rng.choice((10**3, 10**7))))
    kind = rng.choice((b"IDAT", b"zTXt", b"iCCP", b"acTL", b"fcTL"))
    body = kind + (b"a\0\0" if kind != b"IDAT" else b"") + bomb
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    return bytes(data[:33]) + chunk + bytes(data[33:])


@reader("images", read=read_image, mutations={".png": change_png}, weight=2)
def images() -> Iterator[Sample]:
    pixels = np.random.default_rng(0).integers(0, 255, (12, 10, 3), np.uint8)
    for ending, mode in (("png", "RGB"), ("png", "P"), ("png", "L"), ("png", "RGBA"),
                         ("jpg", "RGB"),
                         ("gif", "P"), ("bmp", "RGB"), ("webp", "RGB"), ("tiff", "RGB"),
                         ("tiff", "I;16"), ("ppm", "RGB")):  # fmt: skip
        file = io.BytesIO()
        image = Image.fromarray(pixels)
        image = image.convert("I").convert(mode) if mode == "I;16" else image.convert(mode)
        image.save(file, "JPEG" if ending == "jpg" else ending.upper())
        yield Sample({f"a.{ending}": file.getvalue()})


def read_settings(folder: Path) -> None:
    if b"feature_extractor_type" in (folder / "preprocessor_config.json").read_bytes():
        values = AudioProcessor.load(folder)(np.zeros(1000, np.float32))
    else:
        values = ImageProcessor.load(folder)(np.zeros((5, 6, 3), np.uint8))
    if not bool(values.sum().isfinite()):
        raise SilentlyWrongError("the values are not finite")


@reader("preprocessor_config", read=read_settings)
def settings() -> Iterator[Sample]:
    from glassformer.text.loading.files import json_bytes

    for processor in (AudioProcessor(seconds=1), ImageProcessor(size=(8, 8))):
        yield Sample({"preprocessor_config.json": json_bytes(processor.settings)})
