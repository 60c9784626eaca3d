"""The reference implementation, as the harness uses it: tiny random models, and their outputs."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import plain
import torch
import transformers

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

SPAN = ("start_logits", "end_logits")


def make(config: dict[str, Any], architecture: str, seed: int) -> Any:
    """A published class with random values in every tensor, so that none can hide."""
    known: Any = config
    if hasattr(transformers, architecture):
        known = config_of(config)
    torch.manual_seed(seed)
    model = find_class(architecture)(known).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in sorted(model.state_dict(keep_vars=True).items()):
            if tensor.is_floating_point() and "embed_positions" not in name:
                spread = 0.3 if tensor.ndim == 1 else 0.08
                noise = torch.randn(tensor.shape, generator=generator) * spread
                tensor.copy_(noise + (1.0 if _is_scale(name, tensor) else 0.0))
                if name.endswith("running_var"):  # a variance is not negative
                    tensor.abs_()
    model.tie_weights()
    return model


def config_of(config: dict[str, Any]) -> Any:
    """The reference's own form of a config.json."""
    named = ("model_type", "architectures")
    own = {key: value for key, value in config.items() if key not in named}
    known = transformers.AutoConfig.for_model(config["model_type"], **own)
    known._attn_implementation = "eager"
    return known


def _is_scale(name: str, tensor: torch.Tensor) -> bool:
    """A norm's, which starts at one; where it is stored as its difference from one, at zero."""
    return tensor.ndim == 1 and name.endswith("weight") and bool(tensor.any())


def find_class(architecture: str) -> Any:
    found = getattr(transformers, architecture, None) or plain.classes().get(architecture)
    if found is None:
        raise LookupError(f"neither transformers nor tests/families/plain has a {architecture}")
    return found


def published_classes(model_type: str) -> set[str]:
    """Every model class that the reference exports for a model type (a module may hold several)."""
    if model_type not in transformers.CONFIG_MAPPING:
        return {name for name, kind in plain.classes().items() if kind.model_type == model_type}
    config = transformers.AutoConfig.for_model(model_type)
    module = importlib.import_module(type(config).__module__.replace("configuration", "modeling"))
    return {
        name
        for name in module.__all__
        if issubclass(getattr(module, name), transformers.PreTrainedModel)
        and getattr(module, name).config_class is type(config)
        and not any(part in name for part in ("PreTrained", "Pretrained"))
    }


def named(tokens: torch.Tensor, mask: torch.Tensor | None) -> dict[str, torch.Tensor]:
    """What a model reads, under the name that the reference has for its kind."""
    if tokens.is_floating_point():
        return {"input_features" if tokens.ndim == 3 else "pixel_values": tokens}
    return {"input_ids": tokens, "attention_mask": mask.long()}


def save(model: Any, folder: Path, **options: Any) -> None:
    model.save_pretrained(folder, **options)


def load(folder: Path, architecture: str) -> tuple[Any, dict[str, Any]]:
    model, info = find_class(architecture).from_pretrained(
        folder, output_loading_info=True, attn_implementation="eager"
    )
    return model.eval(), info


@torch.no_grad()
def run(model: Any, inputs: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The reference's outputs under our heads' names; `hidden` for a bare model."""
    body = getattr(model, "base_model", None)
    if hasattr(body, "set_attention_type"):  # which a short text before this one may have changed
        body.set_attention_type(model.config.attention_type)
    out = model(**inputs, use_cache=False) if _takes_cache(model) else model(**inputs)
    if SPAN[0] in out:
        return {"span": torch.stack([out[name] for name in SPAN], -1)}
    named = {
        "prediction_logits": "lm",
        "seq_relationship_logits": "next_sentence",
        "sop_logits": "sentence_order",
        "start_top_log_probs": "answer.start",
        "start_top_index": "answer.start_at",
        "end_top_log_probs": "answer.end",
        "end_top_index": "answer.end_at",
        "cls_logits": "answer.possible",
        "mc_logits": "choose",
        "logits": "logits",
        "reconstruction": "logits",
        "last_hidden_state": "hidden",
        "pooler_output": "pooler",
    }
    return {ours: out[theirs] for theirs, ours in named.items() if out.get(theirs) is not None}


def _takes_cache(model: Any) -> bool:
    return hasattr(model.config, "use_cache")
