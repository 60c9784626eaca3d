"""Tiny models for the page's tests: one of every kind, with weights at random, saved to a folder.

`python tests/page/page_models.py FOLDER` makes them to be opened by hand.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

import glassformer as gf
from glassformer.tasks.task_settings import keep
from glassformer.text import train as train_tokenizer
from glassformer.train.objectives.mixture_parts import with_heads

TEXTS = [
    "time flies like an arrow",
    "fruit flies like a banana",
    "The animal didn't cross the street because it was too tired",
    "A robot must obey the orders given it by human beings",
    "je suis étudiant",
    "i am a student",
]
ROLES = {"eos": "<|end|>", "bos": "<|end|>", "unk": "<|end|>"}
SIZES = {
    "vocab_size": 320,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}


def decoder(**settings: Any) -> gf.Model:
    tokenizer = train_tokenizer("byte-bpe", texts=TEXTS, vocab_size=320, special_tokens=ROLES)
    sizes = {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 128} | settings
    return gf.create("gpt2", tokenizer=tokenizer, vocab_size=tokenizer.size, **sizes)


def gated() -> gf.Model:
    """Built like Llama: queries and keys are turned, the feed-forward part has a gate."""
    tokenizer = train_tokenizer("byte-bpe", texts=TEXTS, vocab_size=320, special_tokens=ROLES)
    return gf.create("llama-7b", tokenizer=tokenizer, **SIZES, num_key_value_heads=2)


def parallel() -> gf.Model:
    """Built like GPT-NeoX: attention and feed-forward part read the same stream."""
    tokenizer = train_tokenizer("byte-bpe", texts=TEXTS, vocab_size=320, special_tokens=ROLES)
    return gf.create("pythia-70m", tokenizer=tokenizer, **SIZES)


LABELS = {"id2label": {"0": "bad", "1": "good", "2": "odd"}}


def encoder(architecture: str = "BertForMaskedLM", **settings: Any) -> gf.Model:
    tokenizer = train_tokenizer("wordpiece", texts=TEXTS, vocab_size=200, lowercase=True)
    return gf.create(
        "bert-base",
        tokenizer=tokenizer,
        architectures=[architecture],
        vocab_size=tokenizer.size,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        **settings,
    )


def labeling(kind: str, **settings: Any) -> gf.Model:
    """An encoder that says something else than tokens, and makes a difference between texts: a
    fresh one is undecided."""
    return shaken(encoder(f"BertFor{kind}", **LABELS, **settings))


HEADS = {  # of `several`, beside the one for masked words: objective and labels
    "topic": ("classification", ["time", "fruit", "law"]),
    "mood": ("classification", ["bad", "good"]),
    "names": ("tagging", ["O", "B-WHO", "I-WHO"]),
}


def several(body: gf.Model) -> gf.Model:
    """A body with a head for masked words gets others, for whole texts and for words."""
    parts = [
        {"name": name, "head": head, "labels": labels} for head, (name, labels) in HEADS.items()
    ]
    model = with_heads(body, parts)
    for head, (_, labels) in HEADS.items():
        keep(model, head, labels=labels)
    return shaken(model)


def labeling_decoder() -> gf.Model:
    return shaken(decoder(architectures=["GPT2ForSequenceClassification"], **LABELS))


def labeling_encoder_decoder() -> gf.Model:
    return shaken(encoder_decoder(architectures=["T5ForSequenceClassification"], **LABELS))


def shaken(model: gf.Model) -> gf.Model:
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for tensor in model.parameters():
            tensor += torch.randn(tensor.shape, generator=generator) * 0.2
    return model


def encoder_decoder(**settings: Any) -> gf.Model:
    roles = {"unk": "<unk>", "eos": "</s>", "pad": "<pad>"}
    tokenizer = train_tokenizer(
        "bpe", texts=TEXTS, vocab_size=160, special_tokens=roles, add_eos=True
    )
    return gf.create(
        "t5-small",
        tokenizer=tokenizer,
        vocab_size=tokenizer.size,
        eos_token_id=tokenizer.special["eos"],
        pad_token_id=tokenizer.special["pad"],
        decoder_start_token_id=tokenizer.special["pad"],
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        **settings,
    )


KINDS = {"decoder": decoder, "encoder": encoder, "encoder_decoder": encoder_decoder}


def save(folder: Path) -> dict[str, Path]:
    """All of them, each in a folder of its name."""
    for name, make in KINDS.items():
        make().save(folder / name)
    return {name: folder / name for name in KINDS}


if __name__ == "__main__":
    for path in save(Path(sys.argv[1])).values():
        print(path)
