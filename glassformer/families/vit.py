"""ViT (Dosovitskiy et al., 2020): an image encoder with patches as tokens.

Pre-norm, learned positions, and a first vector that the heads read.
"""

from __future__ import annotations

from glassformer import spec
from glassformer.families._shared import common, heads
from glassformer.families._shared.config_reader import LARGEST, ConfigReader
from glassformer.families._shared.weight_rules import POINTWISE, WeightRule, projections

NAME = "ViT"
MODEL_TYPES = ("vit",)
HEADS = ("ForImageClassification", "ForMaskedImageModeling")
CLASSES = {"ViTModel": "", **{f"ViT{head}": "vit." for head in HEADS}}
IGNORED: dict[str, str] = {}
UNUSED_TENSORS = {
    "{base}pooler.dense.weight": "of the bare model; the classes with heads read no pooler",
    "{base}pooler.dense.bias": "of the bare model; the classes with heads read no pooler",
}
SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": 20,
    "patch_size": 4,
    "encoder_stride": 4,
}
TINY = (
    SMALL,
    {
        **SMALL,
        "hidden_size": 24,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "hidden_act": "gelu_new",
        "layer_norm_eps": 1e-5,
        "image_size": 18,
        "patch_size": 6,
        "encoder_stride": 3,
        "num_channels": 1,
        "qkv_bias": False,
        "pooler_output_size": 10,
        "pooler_act": "relu",
        "num_labels": 5,
    },
)
LARGE = {
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
}
SIZES = {
    "base-patch16": {},
    "base-patch32": {"patch_size": 32},
    "large-patch16": LARGE,
    "large-patch32": {**LARGE, "patch_size": 32},
}
PRESETS = {
    f"vit-{name}-{pixels}": (
        "ViTForImageClassification",
        {**sizes, "image_size": pixels, "num_labels": 1000},
    )
    for name, sizes in SIZES.items()
    for pixels in (224, 384)
} | {
    "vit-huge-patch14-224-in21k": (
        "ViTModel",
        {
            "hidden_size": 1280,
            "num_hidden_layers": 32,
            "num_attention_heads": 16,
            "intermediate_size": 5120,
            "patch_size": 14,
        },
    ),
}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    kind = architecture.removeprefix("ViT")
    encoder = body(config, blank=kind == "ForMaskedImageModeling")
    labels = common.labels(config)
    stride = config.integer("encoder_stride", 16)
    pooled = heads.pooler(
        config.integer("pooler_output_size", encoder.width),
        common.activation(config, "pooler_act", "tanh"),
    )
    outputs = stride**2 * config.integer("num_channels", 3)
    chosen = {
        "Model": pooled,
        "ForImageClassification": spec.HeadSpec(
            name="classify", pooling="first", num_outputs=len(labels)
        ),
        "ForMaskedImageModeling": spec.HeadSpec(
            name="paint", num_outputs=outputs, pixel_shuffle=stride
        ),
    }[kind]
    return spec.ModelSpec(
        encoder=encoder,
        heads=(chosen,),
        labels=labels,
        init=spec.InitSpec(std=config.number("initializer_range", 0.02, least=0)),
    )


def body(config: ConfigReader, blank: bool) -> spec.StackSpec:
    width = config.integer("hidden_size", 768)
    head_count = config.integer("num_attention_heads", 12)
    dropout = config.dropout("hidden_dropout_prob", 0.0)
    norm = spec.NormSpec(eps=config.eps("layer_norm_eps", 1e-12))
    block = spec.BlockSpec(
        attention=spec.AttentionSpec(
            heads=head_count,
            head_dim=common.head_dim(config, width, head_count, "head_dim"),
            bias=config.flag("qkv_bias", True),
            dropout=config.dropout("attention_probs_dropout_prob", 0.0),
        ),
        ffn=spec.FeedForwardSpec(
            width=config.integer("intermediate_size", 3072),
            activation=common.activation(config, "hidden_act", "gelu"),
        ),
        norm=norm,
        dropout=dropout,
    )
    patches = spec.PatchEmbeddingSpec(
        channels=config.integer("num_channels", 3),
        image_size=extent(config, "image_size", 224),
        patch_size=extent(config, "patch_size", 16),
        has_mask_token=blank,
        dropout=dropout,
    )
    layers = config.layers("num_hidden_layers", 12)
    return spec.StackSpec(width=width, embed=patches, blocks=(block,) * layers, final_norm=norm)


def extent(config: ConfigReader, key: str, default: int) -> tuple[int, int]:
    """Reads height and width, which may be one number."""
    value = config.optional(key, default)
    height, width = value if isinstance(value, list) and len(value) == 2 else (value, value)
    if not all(type(side) is int and 0 < side <= LARGEST for side in (height, width)):
        raise config.wrong(key, "a number of pixels, or height and width")
    return height, width


LAYER, OURS = "{base}encoder.layer.{i}", "encoder.blocks.{i}"
RULES = (
    WeightRule("{base}embeddings.patch_embeddings.projection", "encoder.embed.patch"),
    WeightRule("{base}embeddings.cls_token", "encoder.embed.first"),
    WeightRule("{base}embeddings.mask_token", "encoder.embed.blank"),
    WeightRule("{base}embeddings.position_embeddings", "encoder.embed.position"),
    *projections(
        f"{LAYER}.attention.",
        f"{OURS}.attention",
        "attention.query",
        "attention.key",
        "attention.value",
        "output.dense",
    ),
    WeightRule(f"{LAYER}.layernorm_before", f"{OURS}.attention_norm"),
    WeightRule(f"{LAYER}.intermediate.dense", f"{OURS}.ffn.up"),
    WeightRule(f"{LAYER}.output.dense", f"{OURS}.ffn.down"),
    WeightRule(f"{LAYER}.layernorm_after", f"{OURS}.ffn_norm"),
    WeightRule("{base}layernorm", "encoder.final_norm"),
    WeightRule("{base}pooler.dense", "heads.pooler.transform.dense"),
    WeightRule("classifier", "heads.classify.out"),
    WeightRule("decoder.0", "heads.paint.out", POINTWISE),
)


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    return RULES
