"""Small models for the tests of tasks, made on the fly."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Backend
from tokenizers import models, normalizers, pre_tokenizers, processors

import glassformer as gf

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def word_tokenizer(folder: Path, text: str, **settings: Any) -> gf.Tokenizer:
    """A vocabulary of the words of a text, framed as BERT's."""
    words = sorted(set(re.findall(r"\w+|[^\w\s]", text.lower())))
    ids = {token: i for i, token in enumerate([*SPECIAL, *words])}
    backend = Backend(models.WordLevel(ids, unk_token="[UNK]"))
    backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    folder.mkdir(parents=True, exist_ok=True)
    backend.save(str(folder / "tokenizer.json"))
    names = dict(zip(("pad", "unk", "cls", "sep", "mask"), SPECIAL, strict=True))
    config = {f"{role}_token": token for role, token in names.items()}
    kinds = ["input_ids", "token_type_ids", "attention_mask"]
    config |= {"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": kinds}
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, **settings}))
    return gf.Tokenizer.load(folder)


def bert(tokenizer: gf.Tokenizer, kind: str = "SequenceClassification", **settings: Any) -> Any:
    labels = settings.pop("labels", ("bad", "good"))
    return gf.create(
        "bert-base",
        tokenizer=tokenizer,
        architectures=[f"BertFor{kind}"],
        vocab_size=tokenizer.size,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        id2label={str(i): name for i, name in enumerate(labels)},
        label2id={name: i for i, name in enumerate(labels)},
        **settings,
    )
