"""A small Whisper with its tokenizer, and "words" of tones for it to learn."""

from __future__ import annotations

import csv
import json
import wave
from pathlib import Path

import numpy as np
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend

import glassformer as gf
from glassformer.model import Model
from glassformer.text import Tokenizer

END, START, NO_TIMES = "<|endoftext|>", "<|startoftranscript|>", "<|notimestamps|>"
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven")
RATE = 16_000
SECONDS = 1.0  # that the model hears


def make_tokenizer(folder: Path, languages: tuple[str, ...] = ()) -> Tokenizer:
    """Bytes and whole words, then Whisper's control tokens and times, in its order."""
    split = pre_tokenizers.ByteLevel(add_prefix_space=False)
    whole = [split.pre_tokenize_str(f" {word}")[0][0] for word in WORDS]
    vocabulary = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *whole]
    numbered = {token: number for number, token in enumerate(vocabulary)}
    backend = Backend(models.BPE(vocab=numbered, merges=[], ignore_merges=True))
    backend.pre_tokenizer, backend.decoder = split, decoders.ByteLevel()
    tasks = ("<|translate|>", "<|transcribe|>") if languages else ()
    control = (END, START, *(f"<|{code}|>" for code in languages), *tasks, NO_TIMES)
    backend.add_special_tokens([AddedToken(token, normalized=False) for token in control])
    times = [f"<|{step * 0.02:.2f}|>" for step in range(round(SECONDS / 0.02) + 1)]
    backend.add_tokens([AddedToken(token, normalized=False) for token in times])
    folder.mkdir(parents=True, exist_ok=True)
    backend.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "WhisperTokenizer", "eos_token": END, "bos_token": END}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return Tokenizer.load(folder)


def make_model(folder: Path, languages: tuple[str, ...] = (), **config: object) -> Model:
    """Hears one second; its generation settings name the control tokens, as published ones do."""
    tokenizer = make_tokenizer(folder, languages)
    end, start = tokenizer.id(END), tokenizer.id(START)
    sides = {
        f"{side}_{key}": value
        for side in ("encoder", "decoder")
        for key, value in (("layers", 1), ("attention_heads", 2), ("ffn_dim", 64))
    }
    settings = {
        "d_model": 32,
        **sides,
        "num_mel_bins": 16,
        "max_source_positions": round(SECONDS * 50),
        "max_target_positions": 32,
        "vocab_size": tokenizer.size,
        **dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), end),
        "decoder_start_token_id": start,
        **dict.fromkeys(("suppress_tokens", "begin_suppress_tokens")),
        **config,
    }
    model = gf.create("whisper-tiny", seed=1, tokenizer=tokenizer, **settings)
    if languages:
        model.generation_config = {
            "decoder_start_token_id": start,
            "eos_token_id": end,
            "is_multilingual": True,
            "no_timestamps_token_id": tokenizer.id(NO_TIMES),
            "lang_to_id": {f"<|{code}|>": tokenizer.id(f"<|{code}|>") for code in languages},
            "task_to_id": {t: tokenizer.id(f"<|{t}|>") for t in ("translate", "transcribe")},
        }
    return model


def tone(number: int, seconds: float = 0.3) -> np.ndarray:
    """The sound of a word: its own frequency."""
    time = np.arange(round(RATE * seconds)) / RATE
    return (0.5 * np.sin(2 * np.pi * 300 * 1.35**number * time)).astype(np.float32)


def write_wav(path: Path, samples: np.ndarray, rate: int = RATE) -> None:
    numbers = (samples * 2**15).round().clip(-(2**15), 2**15 - 1).astype("<i2")
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(numbers.tobytes())


def write_words(folder: Path, texts: tuple[str, ...] = WORDS) -> Path:
    """Writes a .wav file for each text of words, and a table of them."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "data.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(("audio", "text", "speaker"))
        for number, text in enumerate(texts):
            sounds = [tone(WORDS.index(word)) for word in text.split()]
            write_wav(folder / f"{number}.wav", np.concatenate(sounds))
            table.writerow((f"{number}.wav", text, f"s{number % 2}"))
    return folder / "data.csv"
