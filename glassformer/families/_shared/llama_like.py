"""Parts shared by Llama and the families derived from it.

Mistral, Qwen and Gemma are Llama with a few changes and are described as such: the common decoder,
then the changes of each layer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from glassformer import spec
from glassformer.errors import ConfigError
from glassformer.families._shared import common, heads
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.rotary import rotary
from glassformer.families._shared.weight_rules import JOINED, WeightRule, projections


@dataclass(frozen=True, kw_only=True)
class LlamaDefaults:
    """Default values that the publishing library uses for keys absent from the config file."""

    width: int = 4096
    ffn: int = 11008
    layers: int = 32
    heads: int = 32
    kv_heads: int | None = None
    head_dim: int | None = None
    vocabulary: int = 32000
    longest: int = 2048
    tied: bool = False
    pad: int | None = None
    bos: int | None = None
    eos: int | None = None
    activation: str = "silu"
    activation_key: str = "hidden_act"


def llama_like_spec(
    config: ConfigReader, kind: str, default: LlamaDefaults, unit_offset: bool = False
) -> spec.ModelSpec:
    """Builds a Llama decoder without positions: RMSNorm, grouped heads, gated feed-forward.

    There is no bias anywhere, and norms precede each sublayer. `with_rotary` adds the positions.

    Args:
        config: The config.
        kind: The ending of the class name.
        default: The family's default values.
        unit_offset: The norms' weights are offsets from 1.
    """
    width = config.integer("hidden_size", default.width)
    count = config.integer("num_attention_heads", default.heads)
    dim = config.integer("head_dim", default.head_dim or width // max(count, 1))
    eps = config.eps("rms_norm_eps", 1e-6)
    norm = spec.NormSpec(kind="rms", eps=eps, bias=False, unit_offset=unit_offset)
    block = spec.BlockSpec(
        attention=spec.AttentionSpec(
            heads=count,
            kv_heads=config.integer("num_key_value_heads", default.kv_heads or count),
            head_dim=dim,
            bias=False,
            out_bias=False,
            dropout=config.dropout("attention_dropout", 0.0),
        ),
        ffn=spec.FeedForwardSpec(
            width=config.integer("intermediate_size", default.ffn),
            activation=common.activation(config, default.activation_key, default.activation),
            gated=True,
            bias=False,
        ),
        norm=norm,
        pattern=spec.CAUSAL,
    )
    vocabulary = config.integer("vocab_size", default.vocabulary)
    chosen = heads.decoder_heads(config, kind, vocabulary, dropout=0.0)
    return spec.ModelSpec(
        decoder=spec.StackSpec(
            width=width,
            embed=spec.TokenEmbeddingSpec(vocabulary=vocabulary),
            blocks=(block,) * config.layers("num_hidden_layers", default.layers),
            final_norm=norm,
        ),
        heads=chosen,
        tied_weights=heads.tie_head(
            config, chosen, "decoder.embed.token.weight", default=default.tied
        ),
        tokens=common.special_tokens(config, pad=default.pad, bos=default.bos, eos=default.eos),
        labels=common.labels(config),
        init=spec.InitSpec(std=config.number("initializer_range", 0.02, least=0)),
    )


def with_rotary(
    config: ConfigReader, model: spec.ModelSpec, default: LlamaDefaults
) -> spec.ModelSpec:
    """Returns the model with the same rotary positions in every layer."""
    longest = config.integer("max_position_embeddings", default.longest)
    position = rotary(config, model.last_stack.attention_blocks[0].attention.head_dim, longest)
    return each_layer(model, lambda _, block: replace(block, position=position))


def each_layer(
    model: spec.ModelSpec, change: Callable[[int, spec.BlockSpec], spec.BlockSpec]
) -> spec.ModelSpec:
    """Returns the model with every decoder block replaced by `change(layer, block)`."""
    assert model.decoder is not None
    old = model.decoder.attention_blocks
    blocks = tuple(change(layer, block) for layer, block in enumerate(old))
    return replace(model, decoder=replace(model.decoder, blocks=blocks))


def with_bias(block: spec.BlockSpec, qkv: bool, out: bool) -> spec.BlockSpec:
    return replace(block, attention=replace(block.attention, bias=qkv, out_bias=out))


def window(size: int | None) -> spec.AttentionPattern:
    """Returns a causal pattern of `size` tokens including the current one; None means no limit."""
    return spec.CAUSAL if size is None else spec.AttentionPattern(left=size - 1, right=0)


def local_layers(config: ConfigReader, default: Sequence[bool]) -> list[bool]:
    """Returns which layers use the sliding window, from `layer_types`."""
    if config.optional("layer_types") is None:
        return list(default)
    names = config.items("layer_types", [], str, "names")
    known = {"sliding_attention": True, "full_attention": False}
    if len(names) < len(default) or not set(names) <= set(known):
        raise ConfigError(
            f"config.json has layer_types {names!r}; each of the {len(default)} layers must be "
            "sliding_attention or full_attention."
        )
    return [known[name] for name in names[: len(default)]]


THEIRS, OURS = "{base}layers.{i}", "decoder.blocks.{i}"
BODY_RULES = (
    WeightRule("{base}embed_tokens", "decoder.embed.token"),
    WeightRule(f"{THEIRS}.input_layernorm", f"{OURS}.attention_norm"),
    *projections(
        f"{THEIRS}.self_attn.", f"{OURS}.attention", "q_proj", "k_proj", "v_proj", "o_proj"
    ),
    WeightRule(f"{THEIRS}.self_attn.q_norm", f"{OURS}.attention.q_norm"),
    WeightRule(f"{THEIRS}.self_attn.k_norm", f"{OURS}.attention.k_norm"),
    WeightRule((f"{THEIRS}.mlp.gate_proj", f"{THEIRS}.mlp.up_proj"), f"{OURS}.ffn.up", JOINED),
    WeightRule(f"{THEIRS}.mlp.down_proj", f"{OURS}.ffn.down"),
    WeightRule("{base}norm", "decoder.final_norm"),
    WeightRule("lm_head", "heads.lm.out"),
    WeightRule("score", "heads.classify.out"),
    WeightRule("score", "heads.tag.out"),
    WeightRule("qa_outputs", "heads.span.out"),
)
RULES = (*BODY_RULES, WeightRule(f"{THEIRS}.post_attention_layernorm", f"{OURS}.ffn_norm"))
