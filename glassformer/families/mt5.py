"""mT5 (Xue et al., 2020): T5 for a hundred languages, gated GELU, output not scaled."""

from __future__ import annotations

from glassformer import spec
from glassformer.families import t5
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import WeightRule

NAME = "mT5"
MODEL_TYPES = ("mt5",)
CLASSES = {f"M{name}": base for name, base in t5.CLASSES.items()}
IGNORED = {
    **t5.IGNORED,
    "tie_word_embeddings": "whether the output layer is tied shows in the tensors",
}
UNUSED_TENSORS = t5.UNUSED_TENSORS
DEFAULTS = {
    "vocab_size": 250112,
    "d_ff": 1024,
    "num_layers": 8,
    "num_heads": 6,
    "feed_forward_proj": "gated-gelu",
    "decoder_start_token_id": 0,
}
TINY = (
    t5.SMALL,
    {
        **t5.SMALL,
        "d_model": 24,
        "d_kv": 16,
        "num_layers": 1,
        "num_decoder_layers": 3,
        "num_heads": 2,
        "feed_forward_proj": "gated-silu",
        "relative_attention_num_buckets": 8,
        "relative_attention_max_distance": 20,
        "layer_norm_epsilon": 1e-5,
    },
    {**t5.SMALL, "feed_forward_proj": "relu", "num_heads": 6},
)
SIZES = {
    "small": (512, 1024, 8, 6),
    "base": (768, 2048, 12, 12),
    "large": (1024, 2816, 24, 16),
    "xl": (2048, 5120, 24, 32),
    "xxl": (4096, 10240, 24, 64),
}
PRESETS = {
    f"mt5-{name}": (
        "MT5ForConditionalGeneration",
        {"d_model": width, "d_ff": ffn, "num_layers": layers, "num_heads": count},
    )
    for name, (width, ffn, layers, count) in SIZES.items()
}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    config = config.with_defaults(DEFAULTS)
    return t5.assemble(config, architecture.removeprefix("MT5"), scaled=False)


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    return t5.weight_rules(model)
