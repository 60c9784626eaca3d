"""M2M-100 (Fan et al., 2020) and NLLB-200 (NLLB Team, 2022): many-to-many translation models.

Pre-norm; sinusoidal positions that skip padding.
"""

from __future__ import annotations

from glassformer import spec
from glassformer.families._shared import common, fairseq_like, heads
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import UNWRITTEN, WeightRule

NAME = "M2M-100, NLLB-200"
MODEL_TYPES = ("m2m_100",)
CLASSES = {"M2M100Model": "", "M2M100ForConditionalGeneration": "model."}
IGNORED = {**fairseq_like.IGNORED, "classifier_dropout": "no class of this family classifies"}
UNUSED_TENSORS = {
    "{base}shared.weight": "a copy that is not used where embeddings are not tied",
    "{base}encoder.embed_positions.weights": "sines and cosines, which are computed",
    "{base}decoder.embed_positions.weights": "sines and cosines, which are computed",
}
TINY = (
    {**fairseq_like.SMALL, "vocab_size": 99},
    {
        **fairseq_like.UNEVEN,
        "vocab_size": 61,
        "scale_embedding": False,
        "activation_function": "gelu",
        "pad_token_id": 3,
        "tie_word_embeddings": False,
    },
)
DEFAULTS = {
    "activation_function": "relu",
    "scale_embedding": True,
    "attention_dropout": 0.1,
    "encoder_layerdrop": 0.05,
    "decoder_layerdrop": 0.05,
}
DEEP = {
    "encoder_layers": 24,
    "decoder_layers": 24,
    "encoder_ffn_dim": 8192,
    "decoder_ffn_dim": 8192,
}
NLLB = {"vocab_size": 256206, "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0}
PRESETS = {
    "m2m100-418m": ("M2M100ForConditionalGeneration", {}),
    "m2m100-1.2b": ("M2M100ForConditionalGeneration", DEEP),
    "nllb-200-600m": ("M2M100ForConditionalGeneration", NLLB),
    "nllb-200-1.3b": ("M2M100ForConditionalGeneration", {**NLLB, **DEEP}),
}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    config = config.with_defaults(DEFAULTS)
    vocabulary = config.integer("vocab_size", 128112)
    pad = config.integer("pad_token_id", 1, least=0)
    positions = spec.PositionTableSpec(
        length=config.integer("max_position_embeddings", 1024),
        layout="inclusive",
        offset=pad + 1,
        padding_idx=pad,
    )
    encoder, decoder = (
        fairseq_like.stack(config, side, vocabulary, positions, norm=None, pre=True)
        for side in ("encoder", "decoder")
    )
    bare = architecture == "M2M100Model"
    chosen = () if bare else (heads.language_model(vocabulary),)
    tied = config.flag("tie_word_embeddings", True)
    return spec.ModelSpec(
        encoder=encoder,
        decoder=decoder,
        heads=chosen,
        tied_weights=fairseq_like.ties(("encoder", "decoder"), chosen) if tied else (),
        tokens=common.special_tokens(config, pad=1, bos=0, eos=2, start=2),
        labels=common.labels(config),
        init=spec.InitSpec(std=config.number("init_std", 0.02, least=0)),
    )


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    shared = bool(model.tied_weights)
    fixed = WeightRule((), "{stack}.embed.position", UNWRITTEN, optional=True)
    return (*fairseq_like.embeddings(shared), fixed, *fairseq_like.BODY)
