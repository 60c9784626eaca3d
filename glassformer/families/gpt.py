"""GPT (Radford et al., 2018): GPT-2's layers with the norm after the sum and no final norm."""

from __future__ import annotations

from collections.abc import Mapping

from glassformer import spec
from glassformer.families import common, gpt2
from glassformer.families.config import Config
from glassformer.families.rules import Rule

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
DROPPED = {
    "{base}h.{i}.attn.bias": "the causal mask, which is computed",
    "{base}position_ids": "counts from 0, which is computed",
}
TINY = (
    {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 160, "vocab_size": 99,
     "pad_token_id": 0},
    {"n_embd": 24, "n_layer": 3, "n_head": 2, "n_positions": 144, "vocab_size": 61,
     "pad_token_id": 0, "afn": "relu", "tie_word_embeddings": False, "num_labels": 3},
)
PRESETS = {"gpt": ("OpenAIGPTLMHeadModel", {})}


def translate(config: Config, architecture: str) -> spec.ModelSpec:
    width = config.int("n_embd", 768)
    heads = config.int("n_head", 12)
    norm = spec.Norm(eps=config.float("layer_norm_epsilon", 1e-5))
    act = common.activation(config, "afn", "gelu")
    block = spec.Block(
        attention=spec.Attention(
            heads=heads,
            head_dim=common.head_dim(config, width, heads),
            dropout=config.float("attn_pdrop", 0.1),
        ),
        # its files say "gelu" and mean the approximation by tanh
        ffn=spec.FFN(width=4 * width, activation="gelu_tanh" if act == "gelu" else act),
        norm=norm,
        placement="post",
        pattern=spec.CAUSAL,
        dropout=config.float("resid_pdrop", 0.1),
    )
    embed = spec.Embed(
        vocabulary=config.int("vocab_size", 40478),
        position=spec.Table(length=config.int("n_positions", 512)),
        segments_are_tokens=True,
        dropout=config.float("embd_pdrop", 0.1),
    )
    chosen = gpt2.own_heads(config, architecture.removeprefix("OpenAIGPT"), embed.vocabulary)
    return spec.ModelSpec(
        decoder=spec.Stack(width=width, embed=embed, blocks=(block,) * config.int("n_layer", 12)),
        heads=chosen,
        tie=common.tie_head(config, chosen, "decoder.embed.token.weight"),
        tokens=common.special_tokens(config),
        labels=common.labels(config),
        init=spec.Init(std=config.float("initializer_range", 0.02)),
    )


def rules(model: spec.ModelSpec) -> tuple[Rule, ...]:
    return (
        Rule("{base}tokens_embed", "decoder.embed.token"),
        Rule("{base}positions_embed", "decoder.embed.position"),
        *gpt2.LAYER_RULES,
        *gpt2.HEAD_RULES,
    )
