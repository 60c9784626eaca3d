"""GPT (Radford et al., 2018): GPT-2's layers with post-norm and no final norm."""

from __future__ import annotations

from collections.abc import Mapping

from glassformer import spec
from glassformer.families import gpt2
from glassformer.families._shared import common, heads
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import WeightRule

NAME = "GPT"
MODEL_TYPES = ("openai-gpt",)
CLASSES = {
    "OpenAIGPTModel": "",
    "OpenAIGPTLMHeadModel": "transformer.",
    "OpenAIGPTDoubleHeadsModel": "transformer.",
    "OpenAIGPTForSequenceClassification": "transformer.",
}
IGNORED: Mapping[str, str] = {
    **gpt2.IGNORED,
    "predict_special_tokens": "the vocabulary's size says whether they are there",
    "n_special": "the vocabulary's size counts them",
}
UNUSED_TENSORS = {
    "{base}h.{i}.attn.bias": "the causal mask, which is computed",
    "{base}position_ids": "counts from 0, which is computed",
}
TINY = (
    {
        "n_embd": 32,
        "n_layer": 2,
        "n_head": 4,
        "n_positions": 160,
        "vocab_size": 99,
        "pad_token_id": 0,
    },
    {
        "n_embd": 24,
        "n_layer": 3,
        "n_head": 2,
        "n_positions": 144,
        "vocab_size": 61,
        "pad_token_id": 0,
        "afn": "relu",
        "tie_word_embeddings": False,
        "num_labels": 3,
    },
)
PRESETS: dict[str, tuple[str, dict[str, object]]] = {"gpt": ("OpenAIGPTLMHeadModel", {})}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    width = config.integer("n_embd", 768)
    count = config.integer("n_head", 12)
    norm = spec.NormSpec(eps=config.eps("layer_norm_epsilon", 1e-5))
    act = common.activation(config, "afn", "gelu")
    block = spec.BlockSpec(
        attention=spec.AttentionSpec(
            heads=count,
            head_dim=common.head_dim(config, width, count),
            dropout=config.dropout("attn_pdrop", 0.1),
        ),
        # "gelu" in its files means the tanh approximation
        ffn=spec.FeedForwardSpec(width=4 * width, activation="gelu_tanh" if act == "gelu" else act),
        norm=norm,
        placement="post",
        pattern=spec.CAUSAL,
        dropout=config.dropout("resid_pdrop", 0.1),
    )
    embed = spec.TokenEmbeddingSpec(
        vocabulary=config.integer("vocab_size", 40478),
        position=spec.PositionTableSpec(length=config.integer("n_positions", 512)),
        segments_are_tokens=True,
        dropout=config.dropout("embd_pdrop", 0.1),
    )
    layers = config.layers("n_layer", 12)
    kind = architecture.removeprefix("OpenAIGPT")
    chosen = heads.decoder_heads(config, kind, embed.vocabulary, dropout=0.1)
    return spec.ModelSpec(
        decoder=spec.StackSpec(width=width, embed=embed, blocks=(block,) * layers),
        heads=chosen,
        tied_weights=heads.tie_head(config, chosen, "decoder.embed.token.weight"),
        tokens=common.special_tokens(config),
        labels=common.labels(config),
        init=spec.InitSpec(std=config.number("initializer_range", 0.02, least=0)),
    )


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    return (
        WeightRule("{base}tokens_embed", "decoder.embed.token"),
        WeightRule("{base}positions_embed", "decoder.embed.position"),
        *gpt2.LAYER_RULES,
        *gpt2.HEAD_RULES,
    )
