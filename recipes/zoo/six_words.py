"""The data of `six`: two sentence pairs, and a tokenizer of ten words.

The first six tokens are the target vocabulary of "The Illustrated Transformer" (Alammar, 2018).
"""

from __future__ import annotations

import json
from pathlib import Path

from sources import SourceFiles
from splits import write, write_records, write_table
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

PAIRS = (("je suis étudiant", "i am a student"), ("merci", "thanks"))
END = "<eos>"
TARGET = (END, "a", "am", "i", "thanks", "student")
SOURCE = ("je", "suis", "étudiant", "merci", "<unk>")
CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "eos_token": END,
    "pad_token": END,
    "unk_token": "<unk>",
    "model_max_length": 16,
    "clean_up_tokenization_spaces": False,
}


def make(sources: SourceFiles, target: Path) -> None:
    write_records(target / "train.jsonl", ({"source": a, "target": b} for a, b in PAIRS))
    write_table(target / "eval" / "pairs.tsv", ("fr", "en"), PAIRS)
    write(target / "tokenizer" / "tokenizer.json", tokenizer().to_str())
    write(target / "tokenizer" / "tokenizer_config.json", json.dumps(CONFIG))


def tokenizer() -> Tokenizer:
    """Returns a tokenizer that splits text at spaces into lower-case words, and ends it."""
    words = {word: id for id, word in enumerate((*TARGET, *SOURCE))}
    made = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    made.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.decoder = decoders.WordPiece(prefix="##", cleanup=False)  # joins words with spaces
    made.post_processor = processors.TemplateProcessing(f"$A {END}", special_tokens=[(END, 0)])
    made.add_special_tokens([END, "<unk>"])
    return made
