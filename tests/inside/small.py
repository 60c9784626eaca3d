"""Small models with a tokenizer of words: a decoder, encoders, an encoder-decoder."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import torch
from models import word_tokenizer

import glassformer as gf
from glassformer.tasks.task_settings import keep
from glassformer.train.objectives.mixture_parts import with_heads

WORDS = (
    "the a robot must obey orders given it by human beings time flies like an arrow fruit banana"
)


@cache
def tokenizer(framed: bool) -> gf.Tokenizer:
    return word_tokenizer(Path(mkdtemp()), re.findall(r"\w+", WORDS), framed=framed)


def shaken(model: gf.Model, seed: int) -> gf.Model:
    """Every tensor gets values that matter: a fresh model's biases are zeros."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in model.parameters():
            tensor += torch.randn(tensor.shape, generator=generator) * 0.15
    return model


def decoder(seed: int = 0, **settings) -> gf.Model:
    known = tokenizer(False)
    sizes = {"vocab_size": known.size, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64}
    ends = {"bos_token_id": 2, "eos_token_id": 3}
    return shaken(gf.create("gpt2", tokenizer=known, **{**sizes, **ends, **settings}), seed)


def grouped(seed: int = 0) -> gf.Model:
    """A decoder whose heads share keys, and whose positions turn them."""
    known = tokenizer(False)
    model = gf.create(
        "llama-3.2-1b",
        tokenizer=known,
        vocab_size=known.size,
        hidden_size=32,
        head_dim=8,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=48,
        max_position_embeddings=64,
        bos_token_id=2,
        eos_token_id=3,
    )
    return shaken(model, seed)


def encoder(kind: str = "MaskedLM", seed: int = 0) -> gf.Model:
    known = tokenizer(True)
    model = gf.create(
        "bert-base",
        tokenizer=known,
        architectures=[f"BertFor{kind}"],
        vocab_size=known.size,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=32,
        id2label={"0": "bad", "1": "good", "2": "odd"},
        label2id={"bad": 0, "good": 1, "odd": 2},
    )
    return shaken(model, seed)


LABELED = {  # the heads of `several`: objective and labels
    "topic": ("classification", ["time", "fruit", "law"]),
    "mood": ("classification", ["bad", "good"]),
    "names": ("tagging", ["O", "B-WHO", "I-WHO"]),
    "speech": ("tagging", ["noun", "verb", "other", "mark"]),
}


def several(seed: int = 0) -> gf.Model:
    """One body with a head for masked words, two for whole texts and two for words."""
    parts = [
        {"name": name, "head": head, "labels": labels} for head, (name, labels) in LABELED.items()
    ]
    model = with_heads(encoder(), parts)
    for head, (_, labels) in LABELED.items():
        keep(model, head, labels=labels)
    return shaken(model, seed)


def both(seed: int = 0) -> gf.Model:
    known = tokenizer(True)
    model = gf.create(
        "bart-base",
        tokenizer=known,
        vocab_size=known.size,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        max_position_embeddings=32,
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=3,
        decoder_start_token_id=3,
        forced_eos_token_id=None,
    )
    return shaken(model, seed)
