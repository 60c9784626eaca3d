"""Parts of small models that tests of several packages make: tokenizers, and sizes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import Any

import sentencepiece
from tokenizers import Tokenizer as Backend
from tokenizers import models, normalizers, pre_tokenizers, processors

import glassformer as gf

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SEQ2SEQ = {  # BART, M2M-100, Whisper and others of their kind
    "d_model": 16,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
}


def word_tokenizer(
    folder: Path,
    words: Iterable[str],
    *,
    framed: bool = True,
    lowercase: bool = False,
    **settings: Any,
) -> gf.Tokenizer:
    """A tokenizer of these words in a folder; framed, it adds [CLS] and [SEP] as BERT's does."""
    ids = {token: i for i, token in enumerate([*SPECIAL, *words])}
    backend = Backend(models.WordLevel(ids, unk_token="[UNK]"))
    if lowercase:
        backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    if framed:
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


def sentencepiece_in(path: Path, texts: Iterable[str]) -> list[str]:
    """Trains a SentencePiece model of at most 60 pieces into a file; its pieces."""
    model = BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=model,
        minloglevel=2,
        hard_vocab_limit=False,
        vocab_size=60,
    )
    path.write_bytes(model.getvalue())
    made = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    return [made.id_to_piece(number) for number in range(made.get_piece_size())]
