"""The Transformer of 2017 (Vaswani et al.), in the layout of Marian's published translation models.

Sinusoidal positions, post-norm, one matrix for both inputs and the output.
"""

from __future__ import annotations

from glassformer import spec
from glassformer.families._shared import common, fairseq_like, heads
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import WeightRule

NAME = "Marian (Transformer of 2017)"
MODEL_TYPES = ("marian",)
CLASSES = {"MarianModel": "", "MarianMTModel": "model.", "MarianForCausalLM": "model."}
IGNORED = {
    **fairseq_like.IGNORED,
    "classifier_dropout": "no class of this family classifies",
    "init_std": "new models are initialized as in 2017",
}
UNUSED_TENSORS = {"{base}shared.weight": "a copy that is not used where embeddings are not tied"}
TINY = (
    {**fairseq_like.SMALL, "vocab_size": 99, "pad_token_id": 98, "decoder_start_token_id": 98},
    {
        **fairseq_like.UNEVEN,
        "vocab_size": 61,
        "pad_token_id": 60,
        "decoder_start_token_id": 60,
        "scale_embedding": True,
        "activation_function": "swish",
        "decoder_vocab_size": 71,
        "share_encoder_decoder_embeddings": False,
    },
    {
        **fairseq_like.UNEVEN,
        "vocab_size": 61,
        "pad_token_id": 60,
        "decoder_start_token_id": 60,
        "activation_function": "relu",
        "tie_word_embeddings": False,
    },
)
OF_2017 = {
    "vocab_size": 37000,
    "scale_embedding": True,
    "activation_function": "relu",
    "pad_token_id": 0,
    "eos_token_id": 1,
    "bos_token_id": None,
    "decoder_start_token_id": 0,
    "forced_eos_token_id": None,
}


def of_2017(width: int, heads: int, ffn: int, dropout: float) -> dict[str, object]:
    sides = {
        f"{side}_{key}": value
        for side in ("encoder", "decoder")
        for key, value in (("layers", 6), ("attention_heads", heads), ("ffn_dim", ffn))
    }
    return {**OF_2017, **sides, "d_model": width, "dropout": dropout}


PRESETS = {
    "transformer-base": ("MarianMTModel", of_2017(512, 8, 2048, 0.1)),
    "transformer-big": ("MarianMTModel", of_2017(1024, 16, 4096, 0.3)),
}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    alone = architecture == "MarianForCausalLM"
    shared = config.flag("share_encoder_decoder_embeddings", True)
    vocabulary = config.integer("vocab_size", 58101)
    target = config.integer("decoder_vocab_size", vocabulary)
    positions = spec.PositionTableSpec(
        length=config.integer("max_position_embeddings", 1024), layout="halves"
    )
    encoder = fairseq_like.stack(config, "encoder", vocabulary, positions, norm=None)
    decoder = fairseq_like.stack(config, "decoder", target, positions, norm=None)
    chosen: tuple[spec.HeadSpec, ...] = {
        "MarianModel": (),
        "MarianMTModel": (heads.language_model(target, bias="fixed"),),
        "MarianForCausalLM": (heads.language_model(target),),
    }[architecture]
    stacks = ("encoder", "decoder") if shared and not alone else ("decoder",)
    tied = config.flag("tie_word_embeddings", True)
    return spec.ModelSpec(
        encoder=None if alone else encoder,
        decoder=decoder,
        heads=chosen,
        tied_weights=fairseq_like.ties(stacks, chosen) if tied else (),
        tokens=common.special_tokens(config, pad=58100, eos=0, start=58100),
        labels=common.labels(config),
        init=spec.InitSpec(kind="xavier", std=1.0),
    )


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    shared = ("encoder.embed.token.weight", "decoder.embed.token.weight") in model.tied_weights
    return (*fairseq_like.embeddings(shared), *fairseq_like.FIXED_POSITIONS, *fairseq_like.BODY)
