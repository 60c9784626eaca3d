"""Whisper (Radford et al., 2022): an audio encoder and a decoder that writes the transcript.

Pre-norm; keys without bias; sinusoidal positions for audio, learned ones for text.
"""

from __future__ import annotations

from dataclasses import replace

from glassformer import spec
from glassformer.families._shared import common, fairseq_like, heads
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import JOINED, WeightRule

NAME = "Whisper"
MODEL_TYPES = ("whisper",)
CLASSES = {
    "WhisperModel": "",
    "WhisperForConditionalGeneration": "model.",
    "WhisperForCausalLM": "model.",
    "WhisperForAudioClassification": "",
}
IGNORED = {
    **fairseq_like.IGNORED,
    "classifier_dropout": "the published classifier has none",
    "median_filter_width": "smooths the times of words, after the model",
    **dict.fromkeys(
        (
            "apply_spec_augment",
            "mask_time_prob",
            "mask_time_length",
            "mask_time_min_masks",
            "mask_feature_prob",
            "mask_feature_length",
            "mask_feature_min_masks",
        ),
        "hides parts of the sound in training",
    ),
}
UNUSED_TENSORS: dict[str, str] = {}
IDS = {
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 3,
    "begin_suppress_tokens": [7, 2],
}
SMALL = {
    **fairseq_like.SMALL,
    **IDS,
    "vocab_size": 99,
    "num_mel_bins": 8,
    "max_source_positions": 24,
    "max_target_positions": 160,
    "classifier_proj_size": 20,
}
SMALL.pop("max_position_embeddings")
TINY = (
    SMALL,
    {
        **SMALL,
        "d_model": 24,
        "encoder_layers": 1,
        "decoder_layers": 3,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 6,
        "encoder_ffn_dim": 40,
        "vocab_size": 61,
        "num_mel_bins": 5,
        "max_source_positions": 17,
        "activation_function": "relu",
        "num_labels": 5,
        "use_weighted_layer_sum": True,
        "scale_embedding": True,
        "tie_word_embeddings": False,
    },
)
MANY = {
    "vocab_size": 51865,
    "pad_token_id": 50257,
    "bos_token_id": 50257,
    "eos_token_id": 50257,
    "decoder_start_token_id": 50258,
}
THIRD = {**MANY, "vocab_size": 51866, "num_mel_bins": 128, "pad_token_id": 50256}


def size(width: int, layers: int, head_count: int) -> dict[str, int]:
    sides = {
        f"{side}_{key}": value
        for side in ("encoder", "decoder")
        for key, value in (
            ("layers", layers),
            ("attention_heads", head_count),
            ("ffn_dim", 4 * width),
        )
    }
    return {"d_model": width, **sides}


SIZES = {
    "tiny": size(384, 4, 6),
    "base": size(512, 6, 8),
    "small": size(768, 12, 12),
    "medium": size(1024, 24, 16),
}
LARGE = size(1280, 32, 20)
WRITES = "WhisperForConditionalGeneration"
PRESETS = {
    **{f"whisper-{name}.en": (WRITES, {"vocab_size": 51864, **s}) for name, s in SIZES.items()},
    **{f"whisper-{name}": (WRITES, {**MANY, **s}) for name, s in SIZES.items()},
    "whisper-large-v2": (WRITES, {**MANY, **LARGE}),
    "whisper-large-v3": (WRITES, {**THIRD, **LARGE}),
    "whisper-large-v3-turbo": (WRITES, {**THIRD, **LARGE, "decoder_layers": 4}),
}
DEFAULTS = {**size(384, 4, 6), "dropout": 0.0}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    config = config.with_defaults(DEFAULTS)
    kind = architecture.removeprefix("Whisper")
    vocabulary = config.integer("vocab_size", 51865)
    positions = spec.PositionTableSpec(length=config.integer("max_target_positions", 448))
    decoder = stack(config, "decoder", vocabulary, positions)
    encoder = listener(config)
    labels = common.labels(config)
    mixes = config.flag("use_weighted_layer_sum", False)
    classify = spec.HeadSpec(
        name="classify",
        pooling="mean",
        num_weighted_layers=len(encoder.blocks) + 1 if mixes else 0,
        transform=spec.TransformSpec(
            width=config.integer("classifier_proj_size", 256), activation="linear"
        ),
        num_outputs=len(labels),
    )
    chosen: tuple[spec.HeadSpec, ...] = {
        "Model": (),
        "ForConditionalGeneration": (heads.language_model(vocabulary),),
        "ForCausalLM": (heads.language_model(vocabulary),),
        "ForAudioClassification": (classify,),
    }[kind]
    return spec.ModelSpec(
        encoder=None if kind == "ForCausalLM" else encoder,
        decoder=None if kind == "ForAudioClassification" else decoder,
        heads=chosen,
        tied_weights=heads.tie_head(config, chosen, "decoder.embed.token.weight"),
        tokens=common.special_tokens(config, pad=50256, bos=50256, eos=50256, start=50257),
        labels=labels,
        init=spec.InitSpec(std=config.number("init_std", 0.02, least=0)),
    )


def listener(config: ConfigReader) -> spec.StackSpec:
    """Builds the encoder: a stack like the decoder's that reads a spectrogram."""
    length = config.integer("max_source_positions", 1500)
    table = spec.PositionTableSpec(length=length, layout="inclusive")
    plain = stack(config, "encoder", 0, table)
    frames = spec.AudioFramesSpec(
        num_mel_bins=config.integer("num_mel_bins", 80),
        position=table,
        dropout=plain.token_embedding.dropout,
    )
    return replace(plain, embed=frames)


def stack(
    config: ConfigReader, side: str, vocabulary: int, positions: spec.PositionTableSpec
) -> spec.StackSpec:
    """Builds the encoder or decoder.

    Keys have no bias in self-attention and cross-attention. The published code reads
    scale_embedding but never scales.
    """
    plain = fairseq_like.stack(config, side, vocabulary, positions, norm=None, pre=True)
    block = plain.attention_blocks[0]
    attention = replace(block.attention, key_bias=False)
    block = replace(block, attention=attention, cross=block.cross and attention)
    return replace(
        plain, embed=replace(plain.token_embedding, scale=1.0), blocks=(block,) * len(plain.blocks)
    )


LAYER, OURS = fairseq_like.LAYER, fairseq_like.OURS
BIASES = (f"{LAYER}.self_attn.q_proj.bias", f"{LAYER}.self_attn.v_proj.bias")


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    return (
        WeightRule("{base}encoder.conv1", "encoder.embed.near"),
        WeightRule("{base}encoder.conv2", "encoder.embed.halve"),
        WeightRule("{base}encoder.embed_positions", "encoder.embed.position", optional=True),
        WeightRule("proj_out", "heads.lm.out"),
        WeightRule("layer_weights", "heads.classify.mix"),
        WeightRule("projector", "heads.classify.transform.dense"),
        WeightRule("classifier", "heads.classify.out"),
        WeightRule(BIASES, f"{OURS}.attention.qkv.bias", JOINED),
        WeightRule(f"{LAYER}.encoder_attn.v_proj.bias", f"{OURS}.cross.kv.bias"),
        *fairseq_like.embeddings(shared=False),
        *fairseq_like.BODY,
    )
