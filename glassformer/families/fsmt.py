"""FSMT: fairseq's translation models, the Transformer of 2017 with two vocabularies.

The decoder includes the output layer, in the bare model too, so that both classes return logits.
"""

from __future__ import annotations

from glassformer import spec
from glassformer.families._shared import common, fairseq_like, heads
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import WeightRule

NAME = "FSMT (Transformer of 2017)"
MODEL_TYPES = ("fsmt",)
CLASSES = {"FSMTModel": "", "FSMTForConditionalGeneration": "model."}
IGNORED = {
    **fairseq_like.IGNORED,
    "langs": "names the two languages, read by the tokenizer",
    "decoder": "a copy of settings that the reference drops too",
}
UNUSED_TENSORS: dict[str, str] = {}
TINY = (
    {**fairseq_like.SMALL, "src_vocab_size": 99, "tgt_vocab_size": 87},
    {
        **fairseq_like.UNEVEN,
        "src_vocab_size": 61,
        "tgt_vocab_size": 61,
        "scale_embedding": False,
        "activation_function": "gelu",
        "tie_word_embeddings": True,
    },
)
PRESETS: dict[str, tuple[str, dict[str, object]]] = {}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    pad = config.integer("pad_token_id", 1, least=0)
    positions = spec.PositionTableSpec(
        length=config.integer("max_position_embeddings", 1024),
        layout="inclusive",
        offset=pad + 1,
        padding_idx=pad,
    )
    source = config.integer("src_vocab_size", 42024)
    target = config.integer("tgt_vocab_size", 42024)
    chosen = (heads.language_model(target),)
    config = config.with_defaults({"activation_function": "relu", "scale_embedding": True})
    tied = config.flag("tie_word_embeddings", False)
    return spec.ModelSpec(
        encoder=fairseq_like.stack(config, "encoder", source, positions, norm=None),
        decoder=fairseq_like.stack(config, "decoder", target, positions, norm=None),
        heads=chosen,
        tied_weights=fairseq_like.ties(("decoder", "encoder"), chosen) if tied else (),
        tokens=common.special_tokens(config, pad=1, bos=0, eos=2, start=2),
        labels=common.labels(config),
        init=spec.InitSpec(std=config.number("init_std", 0.02, least=0)),
    )


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    return (
        WeightRule("{base}decoder.output_projection", "heads.lm.out"),
        *fairseq_like.embeddings(shared=False),
        *fairseq_like.FIXED_POSITIONS,
        *fairseq_like.BODY,
    )
