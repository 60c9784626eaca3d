"""Settings of generation_config.json that `GenerationConfig` does not implement.

A setting that would change the generated text and is not implemented is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from glassformer.errors import UnsupportedError

WITHOUT_EFFECT = {
    key: reason
    for reason, keys in {
        "who wrote the file": "transformers_version _from_model_config _commit_hash",
        "what is given back beside the tokens": "output_attentions output_hidden_states "
        "output_scores output_logits return_dict_in_generate",
        "how the reference runs, not what it computes": "use_cache max_cache_len cache_config "
        "compile_config disable_compile continuous_batching_config low_memory prefill_chunk_size",
        "how tokens are guessed ahead; each is checked before it is written": "use_mtp "
        "is_assistant num_assistant_tokens_schedule assistant_confidence_threshold "
        "max_matching_ngram_size assistant_early_exit assistant_lookbehind target_lookbehind "
        "speculation_type",
        "only numbers that are not finite": "remove_invalid_values",
    }.items()
    for key in keys.split()
}


@dataclass(frozen=True, kw_only=True)
class Refused:
    """Setting that is not implemented.

    Args:
        neutral: Values without effect.
        sampling: Whether the setting matters only for sampling.
        beams: Whether the setting matters only for beam search.
    """

    neutral: tuple[Any, ...] = (False,)
    sampling: bool = False
    beams: bool = False


REFUSED = {
    "sequence_bias": Refused(neutral=({}, [])),
    "guidance_scale": Refused(neutral=(1,)),
    "watermarking_config": Refused(),
    "dola_layers": Refused(),
    "token_healing": Refused(),
    "constraints": Refused(neutral=([],)),
    "encoder_repetition_penalty": Refused(neutral=(1,)),
    "encoder_no_repeat_ngram_size": Refused(neutral=(0,)),
    "exponential_decay_length_penalty": Refused(),
    "assistant_ensemble_weight": Refused(neutral=(1,)),
    "cache_implementation": Refused(
        neutral=(
            "dynamic", "static", "offloaded", "offloaded_static", "sliding_window", "hybrid",
            "hybrid_chunked", "offloaded_hybrid", "offloaded_hybrid_chunked",
        )
    ),
    "epsilon_cutoff": Refused(neutral=(0,), sampling=True),
    "eta_cutoff": Refused(neutral=(0,), sampling=True),
    "top_h": Refused(sampling=True),
    "renormalize_logits": Refused(beams=True),
}  # fmt: skip


def check_saved(
    saved: Mapping[str, Any], given: Mapping[str, Any], *, sampled: bool, beams: bool
) -> None:
    """Raises an error if a saved setting would have an effect that is not implemented.

    `given` are the user's own settings: None removes a saved one.
    """
    for name, setting in REFUSED.items():
        value = saved.get(name)
        idle = (setting.sampling and not sampled) or (setting.beams and not beams)
        if value is None or value in setting.neutral or idle or name in given:
            continue
        raise UnsupportedError(
            f"The model's folder sets {name} to {value!r} for generation, which is not computed "
            "here; remove it from generation_config.json (in older folders config.json), or pass "
            f"{name}=None to write without it.",
            field=name,
        )
