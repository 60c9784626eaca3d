"""The tokenizer files, loaders and default settings of each family, by model type."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glassformer.text.backend import TokenizerBackend
from glassformer.text.backends.ctrl import load_ctrl
from glassformer.text.backends.fsmt import load_fsmt
from glassformer.text.backends.m2m import load_m2m
from glassformer.text.backends.marian import load_marian
from glassformer.text.backends.transfo_xl import load_transfo_xl
from glassformer.text.backends.whisper import load_whisper
from glassformer.text.backends.xlm import load_xlm
from glassformer.text.loading.byte_bpe import (
    load_deberta,
    load_gpt2,
    load_gpt_neox,
    load_qwen,
    load_roberta,
)
from glassformer.text.loading.tokenizer_config import TokenizerConfig
from glassformer.text.loading.unigram import (
    load_albert,
    load_big_bird,
    load_deberta_v2,
    load_mbart,
    load_mbart_50,
    load_nllb,
    load_pegasus,
    load_t5,
    load_xlm_roberta,
    load_xlnet,
)
from glassformer.text.loading.wordpiece_bpe import load_bert, load_gpt, load_llama


@dataclass(frozen=True, kw_only=True)
class TokenizerFamily:
    """How to load the legacy tokenizer files of a family."""

    load: Callable[[Path, TokenizerConfig], TokenizerBackend]
    files: tuple[str, ...]
    or_files: tuple[tuple[str, ...], ...] = ()
    """Alternative sets of files with the same content."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """The settings to use where `tokenizer_config.json` does not set them."""
    segments: bool = False
    """Whether the model embeds which text of a pair a token is in."""
    library_file: bool = True
    """Whether `tokenizer.json` can describe the tokenizer."""

    def complete(self, folder: Path) -> bool:
        """Whether the folder has all files of at least one set."""
        sets = (self.files, *self.or_files)
        return any(all((folder / name).is_file() for name in names) for names in sets)


BERT_FILES = ("vocab.txt",)
BPE_FILES = ("vocab.json", "merges.txt")
SPIECE = ("spiece.model",)
FAIRSEQ = ("sentencepiece.bpe.model",)

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
MASK_AFTER_SPACE = {"content": "[MASK]", "lstrip": True}

BERT = TokenizerFamily(load=load_bert, files=BERT_FILES, defaults=BERT_TOKENS, segments=True)
GPT2 = TokenizerFamily(load=load_gpt2, files=BPE_FILES, defaults=GPT2_TOKENS)
ROBERTA = TokenizerFamily(load=load_roberta, files=BPE_FILES, defaults=ROBERTA_TOKENS)
T5 = TokenizerFamily(load=load_t5, files=SPIECE, defaults=T5_TOKENS)
LLAMA = TokenizerFamily(
    load=load_llama,
    files=("tokenizer.model",),
    defaults={**LLAMA_TOKENS, "padding_side": "left"},
)
GEMMA = TokenizerFamily(
    load=load_llama,
    files=("tokenizer.model",),
    defaults={
        "bos_token": "<bos>",
        "eos_token": "<eos>",
        "unk_token": "<unk>",
        "pad_token": "<pad>",
        "mask_token": "<mask>",
        "padding_side": "left",
        "add_prefix_space": False,
    },
)
QWEN = TokenizerFamily(
    load=load_qwen,
    files=BPE_FILES,
    defaults=dict.fromkeys(("eos_token", "unk_token", "pad_token"), "<|endoftext|>"),
)
MBART_TOKENS = {**ROBERTA_TOKENS, "mask_token": {"content": "<mask>", "lstrip": True}}

FAMILIES: dict[str, TokenizerFamily] = {
    "bert": BERT,
    "distilbert": TokenizerFamily(load=load_bert, files=BERT_FILES, defaults=BERT_TOKENS),
    "electra": BERT,
    "gpt2": GPT2,
    "gpt_neo": GPT2,
    "gptj": GPT2,
    "phi": GPT2,
    "opt": TokenizerFamily(
        load=load_gpt2,
        files=BPE_FILES,
        defaults={
            **dict.fromkeys(("bos_token", "eos_token", "unk_token"), "</s>"),
            "pad_token": "<pad>",
            "add_bos_token": True,
        },
    ),
    "gpt_neox": TokenizerFamily(
        load=load_gpt_neox,
        files=BPE_FILES,
        defaults={**GPT2_TOKENS, "pad_token": "<|padding|>"},
    ),
    "qwen2": QWEN,
    "qwen3": QWEN,
    "roberta": ROBERTA,
    "bart": ROBERTA,
    "longformer": ROBERTA,
    "deberta": TokenizerFamily(
        load=load_deberta,
        files=BPE_FILES,
        defaults={
            **BERT_TOKENS,
            "bos_token": "[CLS]",
            "eos_token": "[SEP]",
            "mask_token": MASK_AFTER_SPACE,
        },
        segments=True,
    ),
    "whisper": TokenizerFamily(
        load=load_whisper,
        files=BPE_FILES,
        or_files=(("multilingual.tiktoken",), ("gpt2.tiktoken",)),
        # Timestamps such as <|1.08|> are not special to the library, but no part of the transcript.
        defaults={**GPT2_TOKENS, "silent_tokens": r"<\|\d+\.\d\d\|>"},
    ),
    "openai-gpt": TokenizerFamily(load=load_gpt, files=BPE_FILES, defaults={"unk_token": "<unk>"}),
    "xlm-roberta": TokenizerFamily(load=load_xlm_roberta, files=FAIRSEQ, defaults=ROBERTA_TOKENS),
    "mbart": TokenizerFamily(
        load=load_mbart, files=FAIRSEQ, defaults={**MBART_TOKENS, "language_code": "last"}
    ),
    "nllb": TokenizerFamily(
        load=load_nllb,
        files=FAIRSEQ,
        defaults={**MBART_TOKENS, "language_code": "first"},
    ),
    "mbart50": TokenizerFamily(
        load=load_mbart_50, files=FAIRSEQ, defaults={**MBART_TOKENS, "language_code": "first"}
    ),
    "t5": T5,
    "mt5": T5,
    "pegasus": TokenizerFamily(
        load=load_pegasus,
        files=SPIECE,
        defaults={**T5_TOKENS, "mask_token": "<mask_2>", "mask_token_sent": "<mask_1>"},
    ),
    "albert": TokenizerFamily(
        load=load_albert,
        files=SPIECE,
        defaults={
            "bos_token": "[CLS]",
            "eos_token": "[SEP]",
            "unk_token": "<unk>",
            "sep_token": "[SEP]",
            "pad_token": "<pad>",
            "cls_token": "[CLS]",
            "mask_token": MASK_AFTER_SPACE,
        },
        segments=True,
    ),
    "big_bird": TokenizerFamily(
        load=load_big_bird,
        files=SPIECE,
        defaults={
            **LLAMA_TOKENS,
            "sep_token": "[SEP]",
            "pad_token": "<pad>",
            "cls_token": "[CLS]",
            "mask_token": MASK_AFTER_SPACE,
        },
    ),
    "deberta-v2": TokenizerFamily(
        load=load_deberta_v2,
        files=("spm.model",),
        defaults={**BERT_TOKENS, "bos_token": "[CLS]", "eos_token": "[SEP]"},
        segments=True,
    ),
    "xlnet": TokenizerFamily(
        load=load_xlnet,
        files=SPIECE,
        defaults={
            **LLAMA_TOKENS,
            "sep_token": "<sep>",
            "pad_token": "<pad>",
            "cls_token": "<cls>",
            "mask_token": {"content": "<mask>", "lstrip": True},
            "additional_special_tokens": ["<eop>", "<eod>"],
            "padding_side": "left",
            "pad_token_type_id": 3,
        },
        segments=True,
    ),
    "llama": LLAMA,
    "mistral": LLAMA,
    "gemma": GEMMA,
    "gemma2": GEMMA,
    "gemma3": GEMMA,
    "gemma3_text": GEMMA,
    "ctrl": TokenizerFamily(
        load=load_ctrl, files=BPE_FILES, library_file=False, defaults={"unk_token": "<unk>"}
    ),
    "xlm": TokenizerFamily(
        load=load_xlm,
        files=BPE_FILES,
        library_file=False,
        defaults={
            "bos_token": "<s>",
            "unk_token": "<unk>",
            "sep_token": "</s>",
            "pad_token": "<pad>",
            "cls_token": "</s>",
            "mask_token": "<special1>",
            "additional_special_tokens": [f"<special{i}>" for i in range(10)],
            "src_lang": "en",
        },
    ),
    "transfo-xl": TokenizerFamily(
        load=load_transfo_xl,
        files=("vocab.txt",),
        or_files=(("vocab.bin",), ("vocab.pkl",)),
        library_file=False,
        defaults={
            "eos_token": "<eos>",
            "unk_token": "<unk>",
            "additional_special_tokens": ["<formula>"],
            "language": "en",
        },
    ),
    "m2m_100": TokenizerFamily(
        load=load_m2m,
        files=("sentencepiece.bpe.model", "vocab.json"),
        library_file=False,
        defaults={**LLAMA_TOKENS, "sep_token": "</s>", "pad_token": "<pad>"},
    ),
    "marian": TokenizerFamily(
        load=load_marian,
        files=("source.spm", "target.spm", "vocab.json"),
        library_file=False,
        defaults={**T5_TOKENS, "model_max_length": 512},
    ),
    "fsmt": TokenizerFamily(
        load=load_fsmt,
        files=("vocab-src.json", "vocab-tgt.json", "merges.txt"),
        library_file=False,
        defaults={
            "bos_token": "<s>",
            "unk_token": "<unk>",
            "sep_token": "</s>",
            "pad_token": "<pad>",
        },
    ),
}

BY_FILES = (
    "fsmt",
    "marian",
    "m2m_100",
    "bert",
    "gpt2",
    "xlm-roberta",
    "t5",
    "llama",
    "deberta-v2",
    "whisper",
)
"""The order of detection if no config.json names the family: the first whose files all exist."""
