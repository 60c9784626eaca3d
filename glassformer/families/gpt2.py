"""GPT-2 (Radford et al., 2019): a decoder with learned positions and pre-norm."""

from __future__ import annotations

from collections.abc import Mapping

from glassformer import spec
from glassformer.families._shared import common, heads
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import TRANSPOSED, WeightRule

NAME = "GPT-2"
MODEL_TYPES = ("gpt2",)
CLASSES = {
    "GPT2Model": "",
    "GPT2LMHeadModel": "transformer.",
    "GPT2DoubleHeadsModel": "transformer.",
    "GPT2ForSequenceClassification": "transformer.",
    "GPT2ForTokenClassification": "transformer.",
    "GPT2ForQuestionAnswering": "transformer.",
}
IGNORED: Mapping[str, str] = {
    "reorder_and_upcast_attn": "the order of a computation whose result is the same",
    "n_ctx": "the same as n_positions",
    **{
        f"summary_{key}": "read by the multiple-choice head alone"
        for key in ("type", "use_proj", "activation", "proj_to_labels", "first_dropout")
    },
}
UNUSED_TENSORS = {
    f"{{base}}h.{{i}}.{part}.{mask}": "the causal mask, which is computed"
    for part in ("attn", "crossattention")
    for mask in ("bias", "masked_bias")
}
TINY = (
    {
        "n_embd": 32,
        "n_layer": 2,
        "n_head": 4,
        "n_positions": 160,
        "vocab_size": 99,
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
        "activation_function": "relu",
        "scale_attn_by_inverse_layer_idx": True,
        "pad_token_id": 0,
        "bos_token_id": 3,
        "eos_token_id": 4,
        "tie_word_embeddings": False,
        "num_labels": 3,
    },
    {
        "n_embd": 32,
        "n_layer": 1,
        "n_head": 8,
        "n_positions": 160,
        "vocab_size": 50,
        "add_cross_attention": True,
        "scale_attn_weights": False,
        "pad_token_id": 0,
        "bos_token_id": 3,
        "eos_token_id": 4,
        "summary_activation": "tanh",
        "activation_function": "gelu",
    },
)
PRESETS = {
    name: ("GPT2LMHeadModel", {"n_embd": width, "n_layer": layers, "n_head": count})
    for name, width, layers, count in (
        ("gpt2", 768, 12, 12),
        ("gpt2-medium", 1024, 24, 16),
        ("gpt2-large", 1280, 36, 20),
        ("gpt2-xl", 1600, 48, 25),
    )
}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    width = config.integer("n_embd", 768)
    biased = config.flag("bias", True)  # false in nanoGPT; the reference reads missing biases as 0
    norm = spec.NormSpec(eps=config.eps("layer_norm_epsilon", 1e-5), bias=biased)
    config.only("pruned_heads", {})
    count = config.integer("n_head", 12)
    dim = common.head_dim(config, width, count)
    residual_dropout = config.dropout("resid_pdrop", 0.1)
    scale = dim**-0.5 if config.flag("scale_attn_weights", True) else 1.0
    by_layer = config.flag("scale_attn_by_inverse_layer_idx", False)
    crosses = config.flag("add_cross_attention", False)
    ffn = spec.FeedForwardSpec(
        width=config.integer("n_inner", 4 * width),
        activation=common.activation(config, "activation_function", "gelu_new"),
        bias=biased,
    )

    def block(layer: int) -> spec.BlockSpec:
        attention = spec.AttentionSpec(
            heads=count,
            head_dim=dim,
            scale=scale / (layer + 1) if by_layer else scale,
            bias=biased,
            out_bias=biased,
            dropout=config.dropout("attn_pdrop", 0.1),
        )
        return spec.BlockSpec(
            attention=attention,
            cross=attention if crosses else None,
            ffn=ffn,
            norm=norm,
            pattern=spec.CAUSAL,
            dropout=residual_dropout,
        )

    stack = spec.StackSpec(
        width=width,
        embed=spec.TokenEmbeddingSpec(
            vocabulary=config.integer("vocab_size", 50257),
            position=spec.PositionTableSpec(length=config.integer("n_positions", 1024)),
            segments_are_tokens=True,
            dropout=config.dropout("embd_pdrop", 0.1),
        ),
        blocks=tuple(block(layer) for layer in range(config.layers("n_layer", 12))),
        final_norm=norm,
    )
    kind = architecture.removeprefix("GPT2")
    dropout = config.dropout("classifier_dropout", 0.1)
    chosen = heads.decoder_heads(config, kind, stack.embed.vocabulary, dropout)
    return spec.ModelSpec(
        decoder=stack,
        heads=chosen,
        tied_weights=heads.tie_head(config, chosen, "decoder.embed.token.weight"),
        tokens=common.special_tokens(config, bos=50256, eos=50256),
        labels=common.labels(config),
        init=spec.InitSpec(
            std=config.number("initializer_range", 0.02, least=0), shrink_residual=True
        ),
    )


LAYER, OURS = "{base}h.{i}", "decoder.blocks.{i}"
HEAD_RULES = (
    WeightRule("lm_head", "heads.lm.out"),
    WeightRule("multiple_choice_head.summary", "heads.choose.out"),
    WeightRule("score", "heads.classify.out"),
    WeightRule("classifier", "heads.tag.out"),
    WeightRule("qa_outputs", "heads.span.out"),
)
LAYER_RULES = (
    WeightRule(f"{LAYER}.ln_1", f"{OURS}.attention_norm"),
    WeightRule(f"{LAYER}.attn.c_attn", f"{OURS}.attention.qkv", TRANSPOSED),
    WeightRule(f"{LAYER}.attn.c_proj", f"{OURS}.attention.out", TRANSPOSED),
    WeightRule(f"{LAYER}.ln_2", f"{OURS}.ffn_norm"),
    WeightRule(f"{LAYER}.mlp.c_fc", f"{OURS}.ffn.up", TRANSPOSED),
    WeightRule(f"{LAYER}.mlp.c_proj", f"{OURS}.ffn.down", TRANSPOSED),
)


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    return (
        WeightRule("{base}wte", "decoder.embed.token"),
        WeightRule("{base}wpe", "decoder.embed.position"),
        *LAYER_RULES,
        WeightRule(f"{LAYER}.ln_cross_attn", f"{OURS}.cross_norm"),
        WeightRule(f"{LAYER}.crossattention.q_attn", f"{OURS}.cross.q", TRANSPOSED),
        WeightRule(f"{LAYER}.crossattention.c_attn", f"{OURS}.cross.kv", TRANSPOSED),
        WeightRule(f"{LAYER}.crossattention.c_proj", f"{OURS}.cross.out", TRANSPOSED),
        WeightRule("{base}ln_f", "decoder.final_norm"),
        *HEAD_RULES,
    )
