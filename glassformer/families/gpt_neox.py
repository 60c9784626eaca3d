"""GPT-NeoX (Black et al., 2022), also Pythia (Biderman et al., 2023).

Attention and feed-forward are parallel, each with its own norm; rotary positions apply to a part of
each head.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from glassformer import spec
from glassformer.families._shared import common, heads
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.rotary import partial_rotary
from glassformer.families._shared.weight_rules import Interleave, WeightRule

NAME = "GPT-NeoX"
MODEL_TYPES = ("gpt_neox",)
CLASSES = {
    "GPTNeoXModel": "",
    "GPTNeoXForCausalLM": "gpt_neox.",
    "GPTNeoXForSequenceClassification": "gpt_neox.",
    "GPTNeoXForTokenClassification": "gpt_neox.",
    "GPTNeoXForQuestionAnswering": "gpt_neox.",
}
IGNORED: Mapping[str, str] = {
    "is_decoder": "the class says what the model is",
    "attention_probs_dropout_prob": "read nowhere; the key is attention_dropout",
    "hidden_dropout_prob": "read nowhere; the key is hidden_dropout",
}
UNUSED_TENSORS = {
    f"{{base}}layers.{{i}}.attention.{name}": "a mask or frequencies, which are computed"
    for name in ("bias", "masked_bias", "rotary_emb.inv_freq")
}
TINY: tuple[dict[str, Any], ...] = (
    {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "vocab_size": 99,
        "pad_token_id": 0,
    },
    {
        "hidden_size": 24,
        "intermediate_size": 40,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "vocab_size": 61,
        "pad_token_id": 0,
        "use_parallel_residual": False,
        "num_labels": 3,
        "hidden_act": "gelu_new",
        "rotary_pct": 0.5,
        "rotary_emb_base": 500,
        "layer_norm_eps": 1e-6,
        "tie_word_embeddings": True,
        "attention_bias": False,
    },
    {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "vocab_size": 50,
        "pad_token_id": 0,
        "hidden_act": "relu",
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 90.0,
            "partial_rotary_factor": 1.0,
        },
    },
)
PRESETS = {
    "gpt-neox-20b": ("GPTNeoXForCausalLM", {"hidden_act": "gelu_fast", "eos_token_id": 0}),
    **{
        f"pythia-{name}": (
            "GPTNeoXForCausalLM",
            {
                "hidden_size": width,
                "intermediate_size": 4 * width,
                "num_hidden_layers": layers,
                "num_attention_heads": count,
                "vocab_size": vocabulary,
                "eos_token_id": 0,
            },
        )
        for name, width, layers, count, vocabulary in (
            ("70m", 512, 6, 8, 50304),
            ("160m", 768, 12, 12, 50304),
            ("410m", 1024, 24, 16, 50304),
            ("1b", 2048, 16, 8, 50304),
            ("1.4b", 2048, 24, 16, 50304),
            ("2.8b", 2560, 32, 32, 50304),
            ("6.9b", 4096, 32, 32, 50432),
            ("12b", 5120, 36, 40, 50688),
        )
    },
}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    width = config.integer("hidden_size", 6144)
    count = config.integer("num_attention_heads", 64)
    dim = common.head_dim(config, width, count, "head_dim")
    norm = spec.NormSpec(eps=config.eps("layer_norm_eps", 1e-5))
    biased = config.flag("attention_bias", True)
    dropout = config.dropout("hidden_dropout", 0.0)
    longest = config.integer("max_position_embeddings", 2048)
    block = spec.BlockSpec(
        attention=spec.AttentionSpec(
            heads=count,
            head_dim=dim,
            bias=biased,
            out_bias=biased,
            dropout=config.dropout("attention_dropout", 0.0),
        ),
        ffn=spec.FeedForwardSpec(
            width=config.integer("intermediate_size", 24576),
            activation=common.activation(config, "hidden_act", "gelu"),
        ),
        norm=norm,
        residual="parallel" if config.flag("use_parallel_residual", True) else "serial",
        position=partial_rotary(config, dim, longest, 0.25, "rotary_pct", "rotary_emb_base"),
        pattern=spec.CAUSAL,
        dropout=dropout,
    )
    vocabulary = config.integer("vocab_size", 50432)
    kind = architecture.removeprefix("GPTNeoX")
    chosen = heads.decoder_heads(
        config, kind, vocabulary, config.dropout("classifier_dropout", 0.1)
    )
    return spec.ModelSpec(
        decoder=spec.StackSpec(
            width=width,
            embed=spec.TokenEmbeddingSpec(vocabulary=vocabulary, dropout=dropout),
            blocks=(block,) * config.layers("num_hidden_layers", 44),
            final_norm=norm,
        ),
        heads=chosen,
        tied_weights=heads.tie_head(config, chosen, "decoder.embed.token.weight", default=False),
        tokens=common.special_tokens(config, bos=0, eos=2),
        labels=common.labels(config),
        init=spec.InitSpec(std=config.number("initializer_range", 0.02, least=0)),
    )


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    hf, local = "{base}layers.{i}", "decoder.blocks.{i}"
    woven = Interleave(model.last_stack.attention_blocks[0].attention.head_dim)
    return (
        WeightRule("{base}embed_in", "decoder.embed.token"),
        WeightRule(f"{hf}.input_layernorm", f"{local}.attention_norm"),
        WeightRule(f"{hf}.attention.query_key_value", f"{local}.attention.qkv", woven),
        WeightRule(f"{hf}.attention.dense", f"{local}.attention.out"),
        WeightRule(f"{hf}.post_attention_layernorm", f"{local}.ffn_norm"),
        WeightRule(f"{hf}.mlp.dense_h_to_4h", f"{local}.ffn.up"),
        WeightRule(f"{hf}.mlp.dense_4h_to_h", f"{local}.ffn.down"),
        WeightRule("{base}final_layer_norm", "decoder.final_norm"),
        WeightRule("embed_out", "heads.lm.out", also=("lm_head",)),
        WeightRule("score", "heads.classify.out"),
        WeightRule("classifier", "heads.tag.out"),
        WeightRule("qa_outputs", "heads.span.out"),
    )
