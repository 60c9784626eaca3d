"""Room 4, families: what the recurrent and the convolutional baseline share: heads, and names."""

from __future__ import annotations

from glassformer.families._shared import common
from glassformer.families._shared import heads
from glassformer.families._shared.config_reader import Config
from glassformer.families._shared.weight_rules import Rule
from glassformer.spec import Head, Init, ModelSpec, Stack

KINDS = ("ForCausalLM", "ForSequenceClassification", "ForTokenClassification")
RULES = (
    Rule("{base}embedding", "{stack}.embed.token"),
    Rule("lm_head", "heads.lm.out"),
    Rule("classifier", "heads.classify.out"),
    Rule("classifier", "heads.tag.out"),
)


def reads_both_ways(config: Config, kind: str) -> bool:
    """What writes text cannot."""
    return config.flag("bidirectional", True) and kind != "ForCausalLM"


def assemble(config: Config, kind: str, stack: Stack, init: Init) -> ModelSpec:
    """An encoder, or a decoder where it reads from left to right alone. The classifier reads the
    maximum over time (Kim, 2014; Conneau et al., 2017)."""
    count, dropout = len(common.labels(config)), config.number("classifier_dropout", 0.1)
    chosen: tuple[Head, ...] = {
        "Model": (),
        "ForCausalLM": (heads.language_model(stack.embed.vocabulary),),
        "ForSequenceClassification": (
            Head(name="classify", pick="max", outputs=count, dropout=dropout),
        ),
        "ForTokenClassification": (heads.tag(count, dropout),),
    }[kind]
    tie = heads.tie_head(config, chosen, "decoder.embed.token.weight", default=False)
    if tie and stack.width != stack.out_width:
        raise config.wrong("tie_word_embeddings", "false, as embedding and output differ in width")
    both_ways = reads_both_ways(config, kind)
    return ModelSpec(
        encoder=stack if both_ways else None,
        decoder=None if both_ways else stack,
        heads=chosen,
        tie=tie,
        tokens=common.special_tokens(config),
        labels=common.labels(config),
        init=init,
    )
