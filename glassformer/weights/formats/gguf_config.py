"""Conversion of GGUF metadata to the config.json of the published model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glassformer.errors import LoadError, UnsupportedError
from glassformer.families._shared.rotary import yarn_magnitude
from glassformer.weights.formats.gguf_rope import llama3_scaling

ROLES = {"bos": "bos", "eos": "eos", "pad": "padding"}  # name in config.json -> name in GGUF


@dataclass(frozen=True)
class GgufMetadata:
    """The parts of a GGUF file that determine the config.

    Attributes:
        metadata: The key-value metadata.
        shapes: Tensor shapes by name.
        frequency_factors: The contents of rope_freqs.weight, if the file has it.
    """

    metadata: Mapping[str, Any]
    shapes: Mapping[str, tuple[int, ...]]
    frequency_factors: Sequence[float] | None = None

    @property
    def architecture(self) -> str:
        return str(self.metadata.get("general.architecture"))

    def get(self, key: str, default: Any = None) -> Any:
        """Returns a metadata value; `key` lacks the prefix of the architecture."""
        return self.metadata.get(f"{self.architecture}.{key}", default)

    def integer(self, key: str, default: int | None = None) -> int:
        value = self.get(key, default)
        if isinstance(value, list) and len(set(value)) == 1:  # one value per layer, all equal
            value = value[0]
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong(key, value)
        return value

    def number(self, key: str, default: float | None = None) -> float:
        value = self.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(key, value)
        return float(value)

    def _wrong(self, key: str, value: Any) -> LoadError:
        said = "lacks" if value is None else "has no single number as"
        return LoadError(f"The GGUF file {said} {self.architecture}.{key}; get it again.")


def config_of(header: GgufMetadata) -> dict[str, Any]:
    """Returns the config.json equivalent of a GGUF file."""
    if header.architecture not in CONFIGS:
        raise UnsupportedError(
            f"The GGUF file holds a model of the architecture {header.architecture!r}; known are "
            f"{', '.join(CONFIGS)}.",
            field="general.architecture",
        )
    if "token_embd.weight" not in header.shapes:
        raise LoadError(
            "The GGUF file has no token_embd.weight, so it holds no model.",
            missing=("token_embd.weight",),
        )
    if header.integer("block_count") > len(header.shapes):
        raise LoadError(
            f"The GGUF file has {header.architecture}.block_count = {header.get('block_count')} "
            f"and only {len(header.shapes)} tensors; get it again."
        )
    ids = {role: f"tokenizer.ggml.{name}_token_id" for role, name in ROLES.items()}
    return {
        **CONFIGS[header.architecture](header),
        "vocab_size": header.shapes["token_embd.weight"][0],
        "tie_word_embeddings": "output.weight" not in header.shapes,
        **{f"{role}_token_id": header.metadata.get(key) for role, key in ids.items()},
    }


def gpt2_config(header: GgufMetadata) -> dict[str, Any]:
    return {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "n_positions": header.integer("context_length"),
        "n_embd": header.integer("embedding_length"),
        "n_layer": header.integer("block_count"),
        "n_head": header.integer("attention.head_count"),
        "n_inner": header.integer("feed_forward_length"),
        "layer_norm_epsilon": header.number("attention.layer_norm_epsilon"),
    }


def llama_config(header: GgufMetadata) -> dict[str, Any]:
    if header.get("expert_count"):
        raise UnsupportedError(
            "The GGUF file holds a mixture of experts, which is not read yet.",
            field="llama.expert_count",
        )
    width, heads = header.integer("embedding_length"), header.integer("attention.head_count")
    dim = header.integer("attention.key_length", width // max(heads, 1))
    for key in ("attention.value_length", "rope.dimension_count"):
        if header.integer(key, dim) != dim:
            raise LoadError(
                f"The GGUF file has llama.{key} = {header.get(key)} and heads of {dim}; the two "
                "are equal in a Llama model."
            )
    config = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "max_position_embeddings": header.integer("context_length"),
        "hidden_size": width,
        "num_hidden_layers": header.integer("block_count"),
        "intermediate_size": header.integer("feed_forward_length"),
        "num_attention_heads": heads,
        "num_key_value_heads": header.integer("attention.head_count_kv", heads),
        "head_dim": dim,
        "rms_norm_eps": header.number("attention.layer_norm_rms_epsilon"),
        "rope_theta": header.number("rope.freq_base", 10_000.0),
        "attention_bias": "blk.0.attn_q.bias" in header.shapes,
        "mlp_bias": "blk.0.ffn_up.bias" in header.shapes,
    }
    factors = header.frequency_factors
    scaling = scaling_by_name(header) if factors is None else llama3_scaling(config, factors)
    return {**config, "rope_scaling": scaling} if scaling else config


CONFIGS = {"llama": llama_config, "gpt2": gpt2_config}


def scaling_by_name(header: GgufMetadata) -> dict[str, Any] | None:
    """Returns `rope_scaling` from the metadata, or None if positions are not scaled."""
    factor = header.number("rope.scaling.factor", header.number("rope.scale_linear", 1.0))
    kind = header.get("rope.scaling.type", "linear")
    if kind == "none" or (kind == "linear" and factor in (0.0, 1.0)):
        return None
    if kind == "linear":
        return {"rope_type": "linear", "factor": factor}
    if kind != "yarn":
        raise UnsupportedError(
            f"The GGUF file has llama.rope.scaling.type = {kind!r}; known are none, linear, yarn.",
            field="llama.rope.scaling.type",
        )
    trained = header.integer("context_length")
    return {
        "rope_type": "yarn",
        "factor": factor,
        "original_max_position_embeddings": header.integer(
            "rope.scaling.original_context_length", trained
        ),
        "beta_fast": header.number("rope.scaling.yarn_beta_fast", 32.0),
        "beta_slow": header.number("rope.scaling.yarn_beta_slow", 1.0),
        "attention_factor": header.number("rope.scaling.attn_factor", 1.0) * yarn_magnitude(factor),
    }
