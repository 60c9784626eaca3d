"""Llama (Touvron et al., 2023): a decoder with rotary positions, RMSNorm, grouped heads, SwiGLU."""

from __future__ import annotations

from collections.abc import Mapping

from glassformer import spec
from glassformer.families import common, heads
from glassformer.families.config import Config
from glassformer.families.rotary import rotary
from glassformer.families.rules import JOINED, Rule, projections

NAME = "Llama"
MODEL_TYPES = ("llama",)
CLASSES = {
    "LlamaModel": "",
    "LlamaForCausalLM": "model.",
    "LlamaForSequenceClassification": "model.",
    "LlamaForTokenClassification": "model.",
    "LlamaForQuestionAnswering": "transformer.",
}
IGNORED: Mapping[str, str] = {}
DROPPED = {
    "{base}layers.{i}.self_attn.rotary_emb.inv_freq": "the frequencies, which are computed",
}
TINY = (
    {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
     "num_key_value_heads": 2, "vocab_size": 99, "pad_token_id": 0},
    {"hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 6,
     "num_key_value_heads": 1, "vocab_size": 61, "pad_token_id": 0, "head_dim": 8,
     "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True, "num_labels": 3,
     "hidden_act": "gelu_new", "max_position_embeddings": 128,
     "rope_parameters": {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0,
                         "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 16}},
    {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4,
     "vocab_size": 50, "pad_token_id": 0, "rms_norm_eps": 1e-5,
     "rope_parameters": {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0,
                         "original_max_position_embeddings": 16}},
    {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
     "vocab_size": 50, "pad_token_id": 0, "rope_theta": 5000.0,
     "rope_scaling": {"type": "linear", "factor": 2.0}},
)
PRESETS = {
    name: ("LlamaForCausalLM", config)
    for name, config in (
        ("llama-7b", {}),
        ("llama-3-8b", {"hidden_size": 4096, "intermediate_size": 14336, "num_key_value_heads": 8,
                        "vocab_size": 128256, "rope_theta": 500000.0, "rms_norm_eps": 1e-5}),
        ("llama-3.2-1b", {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
                          "num_key_value_heads": 8, "vocab_size": 128256, "rope_theta": 500000.0,
                          "head_dim": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": True}),
    )
}


def translate(config: Config, architecture: str) -> spec.ModelSpec:
    width = config.integer("hidden_size", 4096)
    count = config.integer("num_attention_heads", 32)
    dim = config.integer("head_dim", width // max(count, 1))
    norm = spec.Norm(kind="rms", eps=config.number("rms_norm_eps", 1e-6), bias=False)
    biased = config.flag("attention_bias", False)
    block = spec.Block(
        attention=spec.Attention(
            heads=count,
            kv_heads=config.integer("num_key_value_heads", count),
            head_dim=dim,
            bias=biased,
            out_bias=biased,
            dropout=config.number("attention_dropout", 0.0),
        ),
        ffn=spec.FFN(
            width=config.integer("intermediate_size", 11008),
            activation=common.activation(config, "hidden_act", "silu"),
            gated=True,
            bias=config.flag("mlp_bias", False),
        ),
        norm=norm,
        position=rotary(config, dim, config.integer("max_position_embeddings", 2048)),
        pattern=spec.CAUSAL,
    )
    vocabulary = config.integer("vocab_size", 32000)
    kind = architecture.removeprefix("Llama")
    chosen = heads.decoder_heads(config, kind, vocabulary, dropout=0.0)
    return spec.ModelSpec(
        decoder=spec.Stack(
            width=width,
            embed=spec.Embed(vocabulary=vocabulary),
            blocks=(block,) * config.integer("num_hidden_layers", 32),
            final_norm=norm,
        ),
        heads=chosen,
        tie=heads.tie_head(config, chosen, "decoder.embed.token.weight", default=False),
        tokens=common.special_tokens(config, bos=1, eos=2),
        labels=common.labels(config),
        init=spec.Init(std=config.number("initializer_range", 0.02)),
    )


def rules(model: spec.ModelSpec) -> tuple[Rule, ...]:
    theirs, ours = "{base}layers.{i}", "decoder.blocks.{i}"
    return (
        Rule("{base}embed_tokens", "decoder.embed.token"),
        Rule(f"{theirs}.input_layernorm", f"{ours}.attention_norm"),
        *projections(
            f"{theirs}.self_attn.", f"{ours}.attention", "q_proj", "k_proj", "v_proj", "o_proj"
        ),
        Rule(f"{theirs}.post_attention_layernorm", f"{ours}.ffn_norm"),
        Rule((f"{theirs}.mlp.gate_proj", f"{theirs}.mlp.up_proj"), f"{ours}.ffn.up", JOINED),
        Rule(f"{theirs}.mlp.down_proj", f"{ours}.ffn.down"),
        Rule("{base}norm", "decoder.final_norm"),
        Rule("lm_head", "heads.lm.out"),
        Rule("score", "heads.classify.out"),
        Rule("score", "heads.tag.out"),
        Rule("qa_outputs", "heads.span.out"),
    )
