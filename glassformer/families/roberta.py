"""RoBERTa (Liu et al., 2019) and XLM-RoBERTa (Conneau et al., 2019).

BERT's body, with positions that start after the padding token's id, and its own classification
head.
"""

from __future__ import annotations

from collections.abc import Mapping

from glassformer import spec
from glassformer.families import bert
from glassformer.families._shared import common, heads
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import WeightRule

NAME = "RoBERTa, XLM-RoBERTa"
MODEL_TYPES = ("roberta", "xlm-roberta")
HEADS = (
    "ForCausalLM",
    "ForMaskedLM",
    "ForSequenceClassification",
    "ForMultipleChoice",
    "ForTokenClassification",
    "ForQuestionAnswering",
)
CLASSES = {
    **{f"{name}Model": "" for name in ("Roberta", "XLMRoberta")},
    **{f"{name}{head}": "roberta." for name in ("Roberta", "XLMRoberta") for head in HEADS},
}
IGNORED: Mapping[str, str] = {}
UNUSED_TENSORS = {
    **bert.UNUSED_TENSORS,
    "lm_head.bias": "a copy of the bias that is not used where weights are not tied",
}
TINY = (
    bert.SMALL,
    {
        **bert.SMALL,
        "hidden_size": 24,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "hidden_act": "relu",
        "pad_token_id": 4,
        "type_vocab_size": 1,
        "layer_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "num_labels": 5,
    },
    {
        **bert.SMALL,
        "num_hidden_layers": 1,
        "num_attention_heads": 8,
        "is_decoder": True,
        "add_cross_attention": True,
    },
)
BASE = {
    "vocab_size": 50265,
    "max_position_embeddings": 514,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
}
PRESETS = {
    "roberta-base": ("RobertaForMaskedLM", BASE),
    "roberta-large": ("RobertaForMaskedLM", {**BASE, **bert.LARGE}),
    "xlm-roberta-base": ("XLMRobertaForMaskedLM", {**BASE, "vocab_size": 250002}),
    "xlm-roberta-large": ("XLMRobertaForMaskedLM", {**BASE, **bert.LARGE, "vocab_size": 250002}),
}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    pad = config.integer("pad_token_id", 1, least=0)
    rows = config.integer("max_position_embeddings", 512)
    stack = bert.body(
        config, spec.PositionTableSpec(length=rows - pad - 1, offset=pad + 1, padding_idx=pad)
    )
    dropout = bert.head_dropout(config)
    chosen = heads.encoder_heads(
        heads.pooler(stack.width),
        bert.masked_head(config, stack, "gelu"),
        len(common.labels(config)),
        dropout,
        dropout_in=dropout,
    )[architecture.removeprefix("XLM").removeprefix("Roberta")]
    tokens = common.special_tokens(config, pad=1, bos=0, eos=2)
    return bert.assemble(config, stack, chosen, tokens)


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    return (
        *bert.BODY,
        WeightRule("classifier.dense", "heads.classify.transform.dense"),
        WeightRule("classifier.out_proj", "heads.classify.out"),
        WeightRule("lm_head.dense", "heads.lm.transform.dense"),
        WeightRule("lm_head.layer_norm", "heads.lm.transform.norm"),
        heads.masked_bias("lm_head.", tied=bool(model.tied_weights)),
        WeightRule("lm_head.decoder", "heads.lm.out"),
    )
