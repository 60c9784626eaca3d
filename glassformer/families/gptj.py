"""GPT-J (Wang and Komatsuzaki, 2021): parallel attention and feed-forward after one norm.

Rotary positions apply to pairs of neighboring dimensions in a part of each head.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from glassformer import spec
from glassformer.families import gpt2
from glassformer.families._shared import common, heads
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import WeightRule, projections

NAME = "GPT-J"
MODEL_TYPES = ("gptj",)
CLASSES = {
    "GPTJModel": "",
    "GPTJForCausalLM": "transformer.",
    "GPTJForSequenceClassification": "transformer.",
    "GPTJForQuestionAnswering": "transformer.",
}
IGNORED: Mapping[str, str] = gpt2.IGNORED
UNUSED_TENSORS = {
    f"{{base}}h.{{i}}.attn.{name}": "a mask or a table, which are computed"
    for name in ("bias", "masked_bias", "embed_positions")
}
TINY: tuple[dict[str, Any], ...] = (
    {
        "n_embd": 32,
        "n_layer": 2,
        "n_head": 4,
        "n_positions": 160,
        "vocab_size": 99,
        "rotary_dim": 4,
        "bos_token_id": 98,
        "eos_token_id": 98,
        "pad_token_id": 0,
    },
    {
        "n_embd": 24,
        "n_layer": 3,
        "n_head": 2,
        "n_positions": 144,
        "vocab_size": 61,
        "n_inner": 40,
        "rotary_dim": 12,
        "activation_function": "relu",
        "pad_token_id": 0,
        "bos_token_id": 3,
        "eos_token_id": 4,
        "tie_word_embeddings": True,
        "num_labels": 3,
        "layer_norm_epsilon": 1e-6,
    },
)
PRESETS: dict[str, tuple[str, dict[str, Any]]] = {"gpt-j-6b": ("GPTJForCausalLM", {})}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    config.only("rotary", True)
    config.only("scale_attn_weights", True)
    width, count = config.integer("n_embd", 4096), config.integer("n_head", 16)
    dim = common.head_dim(config, width, count)
    norm = spec.NormSpec(eps=config.eps("layer_norm_epsilon", 1e-5))
    block = spec.BlockSpec(
        attention=spec.AttentionSpec(
            heads=count,
            head_dim=dim,
            bias=False,
            out_bias=False,
            dropout=config.dropout("attn_pdrop", 0.0),
        ),
        ffn=spec.FeedForwardSpec(
            width=config.integer("n_inner", 4 * width),
            activation=common.activation(config, "activation_function", "gelu_new"),
        ),
        norm=norm,
        residual="parallel_shared_norm",
        position=spec.RotarySpec(
            dim=config.nullable_integer("rotary_dim", 64, least=0) or dim,
            pairing="pairs",
            length=config.integer("n_positions", 2048),
        ),
        pattern=spec.CAUSAL,
        dropout=config.dropout("resid_pdrop", 0.0),
    )
    embed = spec.TokenEmbeddingSpec(
        vocabulary=config.integer("vocab_size", 50400),
        segments_are_tokens=True,
        dropout=config.dropout("embd_pdrop", 0.0),
    )
    kind = architecture.removeprefix("GPTJ")
    chosen = heads.decoder_heads(config, kind, embed.vocabulary, dropout=0.0, lm_bias=True)
    return spec.ModelSpec(
        decoder=spec.StackSpec(
            width=width,
            embed=embed,
            blocks=(block,) * config.layers("n_layer", 28),
            final_norm=norm,
        ),
        heads=chosen,
        tied_weights=heads.tie_head(config, chosen, "decoder.embed.token.weight", default=False),
        tokens=common.special_tokens(config, bos=50256, eos=50256),
        labels=common.labels(config),
        init=spec.InitSpec(std=config.number("initializer_range", 0.02, least=0)),
    )


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    hf, local = "{base}h.{i}", "decoder.blocks.{i}"
    return (
        WeightRule("{base}wte", "decoder.embed.token"),
        WeightRule(f"{hf}.ln_1", f"{local}.attention_norm"),
        *projections(f"{hf}.attn.", f"{local}.attention", "q_proj", "k_proj", "v_proj", "out_proj"),
        WeightRule(f"{hf}.mlp.fc_in", f"{local}.ffn.up"),
        WeightRule(f"{hf}.mlp.fc_out", f"{local}.ffn.down"),
        WeightRule("{base}ln_f", "decoder.final_norm"),
        *gpt2.HEAD_RULES,
    )
