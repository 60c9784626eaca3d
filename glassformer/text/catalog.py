"""Text room, the catalog: which family has which tokenizer files. A model type comes in."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glassformer.text.codec import Codec
from glassformer.text.fsmt import load_fsmt
from glassformer.text.legacy import (
    load_bert,
    load_gpt,
    load_gpt2,
    load_llama,
    load_roberta,
    load_t5,
    load_xlm_roberta,
)
from glassformer.text.marian import load_marian
from glassformer.text.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Family:
    files: tuple[str, ...]
    load: Callable[[Path, Settings], Codec]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """What `tokenizer_config.json` need not say."""
    segments: bool = False
    """Whether the model embeds which text of a pair a token is in."""
    library_file: bool = True
    """Whether `tokenizer.json` can describe it."""


BERT_TOKENS = {
    "unk_token": "[UNK]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
}
GPT2_TOKENS = dict.fromkeys(("bos_token", "eos_token", "unk_token"), "<|endoftext|>")
T5_TOKENS = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
ROBERTA_TOKENS = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "sep_token": "</s>",
    "pad_token": "<pad>",
    "cls_token": "<s>",
    "mask_token": "<mask>",
}
LLAMA_TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}

BERT = Family(files=("vocab.txt",), load=load_bert, defaults=BERT_TOKENS, segments=True)
DISTILBERT = Family(files=("vocab.txt",), load=load_bert, defaults=BERT_TOKENS)
GPT2 = Family(files=("vocab.json", "merges.txt"), load=load_gpt2, defaults=GPT2_TOKENS)
ROBERTA = Family(files=("vocab.json", "merges.txt"), load=load_roberta, defaults=ROBERTA_TOKENS)
LLAMA = Family(
    files=("tokenizer.model",),
    load=load_llama,
    defaults={**LLAMA_TOKENS, "padding_side": "left"},
)

FAMILIES: dict[str, Family] = {
    "bert": BERT,
    "distilbert": DISTILBERT,
    "electra": BERT,
    "gpt2": GPT2,
    "gpt_neo": GPT2,
    "gptj": GPT2,
    "roberta": ROBERTA,
    "bart": ROBERTA,
    "longformer": ROBERTA,
    "openai-gpt": Family(
        files=("vocab.json", "merges.txt"), load=load_gpt, defaults={"unk_token": "<unk>"}
    ),
    "xlm-roberta": Family(
        files=("sentencepiece.bpe.model",), load=load_xlm_roberta, defaults=ROBERTA_TOKENS
    ),
    "t5": Family(files=("spiece.model",), load=load_t5, defaults=T5_TOKENS),
    "llama": LLAMA,
    "marian": Family(
        files=("source.spm", "target.spm", "vocab.json"),
        load=load_marian,
        library_file=False,
        defaults={**T5_TOKENS, "model_max_length": 512},
    ),
    "fsmt": Family(
        files=("vocab-src.json", "vocab-tgt.json", "merges.txt"),
        load=load_fsmt,
        library_file=False,
        defaults={
            "bos_token": "<s>",
            "unk_token": "<unk>",
            "sep_token": "</s>",
            "pad_token": "<pad>",
        },
    ),
}

BY_FILES = ("fsmt", "marian", "bert", "gpt2", "xlm-roberta", "t5", "llama")
"""Where no config.json names the family: the first of these whose files are all there."""
