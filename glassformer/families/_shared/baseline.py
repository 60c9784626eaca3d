"""Heads and weight names shared by the recurrent and convolutional baselines."""

from __future__ import annotations

from glassformer.families._shared import common, heads
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import WeightRule
from glassformer.spec import HeadSpec, InitSpec, ModelSpec, StackSpec

KINDS = ("ForCausalLM", "ForSequenceClassification", "ForTokenClassification")
RULES = (
    WeightRule("{base}embedding", "{stack}.embed.token"),
    WeightRule("lm_head", "heads.lm.out"),
    WeightRule("classifier", "heads.classify.out"),
    WeightRule("classifier", "heads.tag.out"),
)


def is_bidirectional(config: ConfigReader, kind: str) -> bool:
    """Whether the model is bidirectional; a causal language model cannot be."""
    return config.flag("bidirectional", True) and kind != "ForCausalLM"


def assemble(config: ConfigReader, kind: str, stack: StackSpec, init: InitSpec) -> ModelSpec:
    """Builds a model: an encoder if bidirectional, otherwise a decoder.

    The classifier reads the maximum over time (Kim, 2014; Conneau et al., 2017).
    """
    count, dropout = len(common.labels(config)), config.dropout("classifier_dropout", 0.1)
    chosen: tuple[HeadSpec, ...] = {
        "Model": (),
        "ForCausalLM": (heads.language_model(stack.embed.vocabulary),),
        "ForSequenceClassification": (
            HeadSpec(name="classify", pooling="max", num_outputs=count, dropout=dropout),
        ),
        "ForTokenClassification": (heads.tag(count, dropout),),
    }[kind]
    tie = heads.tie_head(config, chosen, "decoder.embed.token.weight", default=False)
    if tie and stack.width != stack.out_width:
        raise config.wrong("tie_word_embeddings", "false, as embedding and output differ in width")
    bidirectional = is_bidirectional(config, kind)
    return ModelSpec(
        encoder=stack if bidirectional else None,
        decoder=None if bidirectional else stack,
        heads=chosen,
        tied_weights=tie,
        tokens=common.special_tokens(config),
        labels=common.labels(config),
        init=init,
    )
