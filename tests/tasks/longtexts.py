"""Tokenizers of several kinds, and long texts in which letters are of more than one code point."""

from __future__ import annotations

import random
from functools import cache

from glassformer.text import Tokenizer, train

CLAUSES = [
    "The old miller walked to the river",
    "Cafe\u0301 Ze\u0301ro opened in A\u030angstro\u0308m",
    "Die K\u00f6nigin lag im Nebel",
    "你好，世界！机器学习是人工智能",
    "我有iPhone手机和3.14台电脑",
    "हिन्दी में लिखा",
    "👩\u200d👩\u200d👧 loves 🏳️\u200d🌈 and 👍🏽",
    "Was there anything (left) of $1,000.50?",
    "x" * 300,
    "中" * 700,
    "🇫🇷🇩🇪 flags…",
    "don't  odd   spaces\u00a0here\ttoo\n\n",
]
BERT_ROLES = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
XLNET_ROLES = {"unk": "<unk>", "bos": "<s>", "eos": "</s>", "cls": "<cls>", "sep": "<sep>",
               "pad": "<pad>", "mask": "<mask>"}  # fmt: skip
KINDS = ("wordpiece", "lowercase", "byte-bpe", "unigram")


@cache
def tokenizer(kind: str) -> Tokenizer:
    lower = kind == "lowercase"
    roles = {"unigram": XLNET_ROLES, "byte-bpe": {"eos": "</s>", "pad": "<pad>"}}
    return train(
        "wordpiece" if lower else kind,
        texts=CLAUSES * 2,
        vocab_size=600,
        special_tokens=roles.get(kind, BERT_ROLES),
        lowercase=lower,
    )


def text(characters: int, seed: int = 0) -> str:
    rng = random.Random(seed)
    made: list[str] = []
    length = 0
    while length < characters:
        made.append(rng.choice(CLAUSES) + rng.choice([". ", ", ", "\n", " "]))
        length += len(made[-1])
    return "".join(made)[:characters]
