"""Small random Whisper models with a tokenizer of bytes, and sounds for them."""

from __future__ import annotations

import json
import wave
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers.pre_tokenizers import ByteLevel

POSITIONS = 24  # of the encoder: windows of 48 frames, 0.48 s
RATE = 16_000


def special_tokens(languages: tuple[str, ...]) -> list[str]:
    return [
        "<|endoftext|>",
        "<|startoftranscript|>",
        *(f"<|{code}|>" for code in languages),
        "<|translate|>",
        "<|transcribe|>",
        "<|startoflm|>",
        "<|startofprev|>",
        "<|nospeech|>",
        "<|notimestamps|>",
        *(f"<|{step * 0.02:.2f}|>" for step in range(POSITIONS + 1)),
    ]


def write_whisper(
    folder: Path, languages: tuple[str, ...] = (), seed: int = 0, **settings: Any
) -> Path:
    """Writes a published folder; without languages, the model knows English only."""
    folder.mkdir(parents=True, exist_ok=True)
    letters = sorted(ByteLevel.alphabet())
    special = special_tokens(languages)
    ids = {token: len(letters) + place for place, token in enumerate(special)}
    (folder / "vocab.json").write_text(json.dumps({t: i for i, t in enumerate(letters)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    added = {str(id): {"content": token, "special": True} for token, id in ids.items()}
    eos = "<|endoftext|>"
    kind = {"tokenizer_class": "WhisperTokenizer", "added_tokens_decoder": added}
    roles = dict.fromkeys(("eos_token", "bos_token", "unk_token", "pad_token"), eos)
    (folder / "tokenizer_config.json").write_text(json.dumps({**kind, **roles}))
    end, start = ids[eos], ids["<|startoftranscript|>"]
    config = transformers.WhisperConfig(
        **{
            "vocab_size": len(letters) + len(special),
            "num_mel_bins": 8,
            "d_model": 16,
            "encoder_layers": 1,
            "decoder_layers": 2,
            "encoder_attention_heads": 2,
            "decoder_attention_heads": 2,
            "encoder_ffn_dim": 32,
            "decoder_ffn_dim": 32,
            "max_source_positions": POSITIONS,
            "max_target_positions": 64,
            **dict.fromkeys(("eos_token_id", "bos_token_id", "pad_token_id"), end),
            "decoder_start_token_id": start,
            "suppress_tokens": None,
            "begin_suppress_tokens": None,
            **settings,
        }
    )
    torch.manual_seed(seed)
    model = transformers.WhisperForConditionalGeneration(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)  # so that the text depends on the sound
    generation = {
        **dict.fromkeys(("eos_token_id", "bos_token_id", "pad_token_id"), end),
        "decoder_start_token_id": start,
        "no_timestamps_token_id": ids["<|notimestamps|>"],
        "prev_sot_token_id": ids["<|startofprev|>"],
        "max_initial_timestamp_index": 20,
        "is_multilingual": bool(languages),
        "begin_suppress_tokens": [letters.index("Ġ"), end],
        "suppress_tokens": [7, start, ids["<|startofprev|>"], ids["<|nospeech|>"]],
        "alignment_heads": [[0, 1], [1, 0]],
        "max_length": 64,
        "return_timestamps": False,
    }
    if languages:
        generation["lang_to_id"] = {f"<|{code}|>": ids[f"<|{code}|>"] for code in languages}
        generation["task_to_id"] = {t: ids[f"<|{t}|>"] for t in ("translate", "transcribe")}
    vars(model.generation_config).update(generation)
    model.save_pretrained(folder)
    (folder / "generation_config.json").write_text(json.dumps(generation))
    return folder


def voice(seconds: float, seed: int = 0) -> np.ndarray:
    """Noise whose loudness rises and falls four times a second, as that of speech."""
    random = np.random.default_rng(seed)
    time = np.arange(round(seconds * RATE)) / RATE
    loud = np.clip(np.sin(2 * np.pi * 2 * time) ** 2, 0.001, 1)
    tone = np.sin(2 * np.pi * (300 + 200 * np.sin(3 * time)) * time)
    return (loud * (0.2 * tone + 0.05 * random.standard_normal(len(time)))).astype(np.float32)


def write_wav(path: Path, samples: np.ndarray, rate: int = RATE, width: int = 2) -> Path:
    """Writes samples of [sample] or [sample, channel] between -1 and 1."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1 if samples.ndim == 1 else samples.shape[1])
        file.setsampwidth(width)
        file.setframerate(rate)
        if width == 1:
            file.writeframes((samples * 127 + 128).astype(np.uint8).tobytes())
        else:
            file.writeframes((samples * 32767).astype("<i2").tobytes())
    return path
