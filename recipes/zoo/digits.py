"""Makes what recipes/zoo/digits.toml reads, in data/zoo/digits: spoken digits in sequences of one
to eight with pauses, and a new model of Whisper's shape with a vocabulary of ten words:

    python recipes/zoo/digits.py voices                   # by espeak-ng, which must be installed
    python recipes/zoo/digits.py sequences --fsdd FOLDER  # the recordings of FSDD (CC BY-SA 4.0)
    python recipes/zoo/digits.py base
    glassformer train recipes/zoo/digits.toml

A sequence is of one speaker. The first five recordings of every speaker and digit (FSDD's test
part) are held out; with `--leave-out NAME`, all of that speaker are, and nothing else."""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import wave
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend

import glassformer as gf
from glassformer.signals.wav import read_wav, resample
from glassformer.text import Tokenizer

HOME = Path("data", "zoo", "digits")
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
RATE = 8_000  # of FSDD
SECONDS = 10  # that the model hears
MOST = 8  # digits of a sequence
HELD_OUT = 5  # recordings of each speaker and digit
SYNTHETIC = "espeak"
ACCENTS = ("en-us", "en-gb", "en-gb-scotland", "en-gb-x-rp", "en-gb-x-gbclan", "en-029")
VARIANTS = ("m1", "m3", "m5", "m7", "f1", "f2", "f4", "croak")
END, START, NO_TIMES = "<|endoftext|>", "<|startoftranscript|>", "<|notimestamps|>"

Clips = dict[str, dict[int, list[np.ndarray]]]  # by speaker and digit


def make_voices(folder: Path) -> None:
    """Writes the digits in many voices, speeds and pitches, under names like those of FSDD."""
    folder.mkdir(parents=True, exist_ok=True)
    for accent in ACCENTS:
        for variant in VARIANTS:
            voice = f"{SYNTHETIC}-{accent}-{variant}"
            for index, (speed, pitch) in enumerate(((120, 40), (160, 50), (200, 65))):
                for digit, word in enumerate(WORDS):
                    samples = spoken(word, f"{accent}+{variant}", speed, pitch)
                    write(folder / f"{digit}_{voice}_{index}.wav", samples)


def spoken(word: str, voice: str, speed: int, pitch: int) -> np.ndarray:
    """Returns a word by espeak-ng, without the silence around it."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "word.wav")
        command = ["espeak-ng", "-v", voice, "-s", str(speed), "-p", str(pitch), "-w", str(path)]
        subprocess.run([*command, word], check=True)
        samples = resample(*read_wav(path), RATE).numpy()
    loud = np.flatnonzero(np.abs(samples) > 0.01)
    return samples[loud[0] : loud[-1] + 1]


def write(path: Path, samples: np.ndarray) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        numbers = (samples * 2**15).round().clip(-(2**15), 2**15 - 1)
        file.writeframes(numbers.astype("<i2").tobytes())


def read_clips(folders: Sequence[Path], leave_out: str | None) -> tuple[Clips, Clips]:
    """Returns the clips to learn from, and those that are held out."""
    learned: Clips = defaultdict(lambda: defaultdict(list))
    held: Clips = defaultdict(lambda: defaultdict(list))
    for folder in folders:
        for path in sorted(folder.glob("*.wav")):
            digit, speaker, index = path.stem.split("_")
            real = not speaker.startswith(SYNTHETIC)
            early = leave_out is None and real and int(index) < HELD_OUT
            part = held if early or speaker == leave_out else learned
            part[speaker][int(digit)].append(resample(*read_wav(path), RATE).numpy())
    return learned, held


def sequence(
    clips: dict[int, list[np.ndarray]], draw: np.random.Generator, noisy: bool
) -> tuple[np.ndarray, list[dict[str, object]]]:
    """Returns a sequence of digits, [sample], and for each its word and times."""
    parts: list[np.ndarray] = []
    said: list[dict[str, object]] = []
    longest = RATE * SECONDS
    parts.append(np.zeros(int(draw.uniform(0.05, 0.5) * RATE), np.float32))
    for digit in draw.choice(sorted(clips), size=draw.integers(1, MOST + 1)):
        sound = clips[digit][draw.integers(len(clips[digit]))]
        pause = np.zeros(int(draw.choice((0.05, draw.uniform(0.05, 0.7))) * RATE), np.float32)
        start = sum(map(len, parts))
        if start + len(sound) + len(pause) > longest:
            break
        end = start + len(sound)
        said.append({"text": WORDS[digit], "start": start / RATE, "end": end / RATE})
        parts += [sound / max(float(np.abs(sound).max()), 1e-3), pause]
    samples = np.concatenate(parts) * draw.uniform(0.1, 0.9)
    if noisy:
        noise = draw.normal(size=len(samples)) * 10 ** draw.uniform(-4.0, -2.0)
        samples = samples + noise * np.abs(samples).max()
    return samples.astype(np.float32), said


def make_sequences(home: Path, name: str, clips: Clips, count: int, seed: int, real: float) -> None:
    """Writes `count` sequences; a share `real` of them is of people."""
    draw = np.random.default_rng(seed)
    people = sorted(one for one in clips if not one.startswith(SYNTHETIC))
    voices = sorted(set(clips) - set(people))
    (home / name).mkdir(parents=True, exist_ok=True)
    with (home / f"{name}.jsonl").open("w", encoding="utf-8") as table:
        for number in range(count):
            speaker = str(draw.choice(people if draw.random() < real or not voices else voices))
            samples, said = sequence(clips[speaker], draw, noisy=name == "train")
            path = home / name / f"{number}.wav"
            write(path, samples)
            row = {"audio": f"{name}/{path.name}", "text": " ".join(str(s["text"]) for s in said)}
            table.write(json.dumps({**row, "speaker": speaker, "segments": said}) + "\n")


def make_base(folder: Path) -> None:
    """Writes a new model with its tokenizer: bytes, ten words, control tokens and times."""
    split = pre_tokenizers.ByteLevel(add_prefix_space=False)
    whole = [split.pre_tokenize_str(f" {word}")[0][0] for word in WORDS]
    tokens = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *whole]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    backend = Backend(models.BPE(vocab=vocabulary, merges=[], ignore_merges=True))
    backend.pre_tokenizer, backend.decoder = split, decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(t, normalized=False) for t in (END, START, NO_TIMES)])
    times = [f"<|{step * 0.02:.2f}|>" for step in range(50 * SECONDS + 1)]
    backend.add_tokens([AddedToken(token, normalized=False) for token in times])
    with tempfile.TemporaryDirectory() as place:
        backend.save(str(Path(place, "tokenizer.json")))
        settings = {"tokenizer_class": "WhisperTokenizer", "eos_token": END, "bos_token": END}
        Path(place, "tokenizer_config.json").write_text(json.dumps(settings))
        tokenizer = Tokenizer.load(place)
        end = tokenizer.id(END)
        sizes = {"encoder_layers": 4, "decoder_layers": 2, "d_model": 128}
        sides = {f"{side}_attention_heads": 4 for side in ("encoder", "decoder")}
        widths = {f"{side}_ffn_dim": 512 for side in ("encoder", "decoder")}
        gf.create(
            "whisper-tiny.en",
            seed=1,
            tokenizer=tokenizer,
            **sizes,
            **sides,
            **widths,
            dropout=0.1,
            vocab_size=tokenizer.size,
            max_source_positions=50 * SECONDS,
            max_target_positions=64,
            decoder_start_token_id=tokenizer.id(START),
            **dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), end),
            **dict.fromkeys(("suppress_tokens", "begin_suppress_tokens")),
        ).save(folder)


def main() -> None:
    asked = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    asked.add_argument("what", choices=("voices", "sequences", "base"))
    asked.add_argument("--fsdd", type=Path, help="folder of FSDD's recordings")
    asked.add_argument("--leave-out", help="speaker to hold out")
    asked.add_argument("--count", type=int, default=20_000, help="sequences to learn from")
    asked.add_argument("--to", default=HOME, type=Path)
    given = asked.parse_args()
    if given.what == "voices":
        make_voices(given.to / "voices")
    elif given.what == "base":
        make_base(given.to / "base")
    else:
        if given.fsdd is None:
            asked.error("sequences needs --fsdd FOLDER")
        torch.set_num_threads(1)
        learned, held = read_clips((given.fsdd, given.to / "voices"), given.leave_out)
        make_sequences(given.to, "train", learned, given.count, seed=1, real=0.6)
        make_sequences(given.to, "valid", held, max(20, given.count // 40), seed=2, real=1.0)


if __name__ == "__main__":
    main()
