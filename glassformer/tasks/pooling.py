"""Pools the hidden states of a text's tokens into one vector.

A folder sets the pooling in the layout of the sentence-transformers library: `modules.json` lists
steps, `1_Pooling/config.json` names the mode, and a step `Normalize` scales every vector to
length 1.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.errors import ConfigError, LoadError, UnsupportedError
from glassformer.storage.folders import complete_pending_save
from glassformer.storage.names import named_in
from glassformer.storage.parsing import read_json

THEIRS = {  # our names, and those of sentence-transformers since version 5.3
    "mean": "mean",
    "first": "cls",
    "last": "lasttoken",
    "max": "max",
    "weighted": "weightedmean",
    "root": "mean_sqrt_len_tokens",
}
OLDER = {  # the keys that every version reads and older ones write
    "mean": "pooling_mode_mean_tokens",
    "first": "pooling_mode_cls_token",
    "last": "pooling_mode_lasttoken",
    "max": "pooling_mode_max_tokens",
    "weighted": "pooling_mode_weightedmean_tokens",
    "root": "pooling_mode_mean_sqrt_len_tokens",
}


@dataclass(frozen=True, kw_only=True)
class Pooling:
    """How hidden states become a vector.

    Args:
        modes: "mean" of the tokens, "first" or "last" token, "max" of each dimension, "weighted"
            mean with weights 1, 2, 3, ..., or "root": the sum divided by the square root of the
            number of tokens. Several are concatenated.
        normalize: Whether to scale vectors to length 1.
        length: The maximum number of tokens.
        prompts: Texts to put before an input, by name ("query", "document").
        prompt: The name of the default prompt.
        skip_prompt: Whether the tokens of the prompt are excluded from pooling.
        similarity: How the sentence-transformers library compares the vectors.
    """

    modes: tuple[str, ...] = ("mean",)
    normalize: bool = False
    length: int | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)
    prompt: str | None = None
    skip_prompt: bool = False
    similarity: str = "cosine"

    def __post_init__(self) -> None:
        for mode in self.modes or ("",):
            if mode not in POOLS:
                raise ConfigError(
                    f"There is no pooling {mode!r}; choose one of {', '.join(POOLS)}."
                )

    def __call__(self, states: Tensor, mask: Tensor | None = None) -> Tensor:
        """Pools [text, position, width] to [text, vector]; the mask is True at pooled positions."""
        if mask is None:
            mask = torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)
        x = states if states.dtype == torch.float64 else states.float()
        vectors = torch.cat([POOLS[mode](x, mask) for mode in self.modes], -1)
        return F.normalize(vectors, dim=-1) if self.normalize else vectors

    def words(self, prompt: str | None = None) -> str:
        """Returns the prompt with this name, or the default prompt."""
        return self.prompts.get(prompt or self.prompt or "", "")

    def record(self) -> dict[str, Any]:
        return {**vars(self), "modes": list(self.modes), "prompts": dict(self.prompts)}

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Pooling:
        return cls(**{**record, "modes": tuple(record["modes"])})


def _first(x: Tensor, mask: Tensor) -> Tensor:
    return _at(x, mask.int().argmax(-1))


def _last(x: Tensor, mask: Tensor) -> Tensor:
    slots = torch.arange(mask.shape[1], device=mask.device)
    return _at(x, (slots * mask).argmax(-1))


def _at(x: Tensor, slots: Tensor) -> Tensor:
    return x.gather(1, slots[:, None, None].expand(-1, 1, x.shape[-1]))[:, 0]


def _max(x: Tensor, mask: Tensor) -> Tensor:
    return x.masked_fill(~mask[..., None], float("-inf")).amax(1)


def _mean(x: Tensor, mask: Tensor) -> Tensor:
    return _weighted_by(mask.to(x.dtype), x)


def _weighted(x: Tensor, mask: Tensor) -> Tensor:
    slots = torch.arange(1, mask.shape[1] + 1, device=mask.device)
    return _weighted_by((slots * mask).to(x.dtype), x)


def _weighted_by(weights: Tensor, x: Tensor) -> Tensor:
    shares = weights / weights.sum(-1, keepdim=True).clamp_min(1e-9)
    return (shares[:, None] @ x)[:, 0]


def _root(x: Tensor, mask: Tensor) -> Tensor:
    return _mean(x, mask) * mask.sum(-1, keepdim=True).to(x.dtype).sqrt()


POOLS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mean": _mean,
    "first": _first,
    "last": _last,
    "max": _max,
    "weighted": _weighted,
    "root": _root,
}


def read_pooling(folder: Path) -> Pooling | None:
    """Reads the pooling of a folder; None if the folder does not set one."""
    complete_pending_save(folder)
    if not (folder / "modules.json").is_file():
        return None
    modes: tuple[str, ...] = ()
    skip = normalize = False
    base = folder
    for module in read_json(folder / "modules.json", list):
        if not isinstance(module, dict):
            raise LoadError(f"{folder / 'modules.json'} must list objects; get it again.")
        kind = str(module.get("type", "")).rpartition(".")[2]
        step = module.get("path", "")
        path = named_in(folder, step, folder / "modules.json") if step else folder
        if kind == "Transformer":
            base = path
        elif kind == "Pooling":
            settings = read_json(path / "config.json", dict)
            modes, skip = _modes(settings, path), not settings.get("include_prompt", True)
        elif kind == "Normalize":
            normalize = True
        elif kind != "Dropout":  # which has no effect after training
            raise UnsupportedError(
                f"{folder / 'modules.json'} has the step {kind!r}, which is not supported "
                "(only Transformer, Pooling and Normalize are); remove it to load the rest."
            )
    about = _optional(folder / "config_sentence_transformers.json")
    length = _optional(base / "sentence_bert_config.json").get("max_seq_length")
    prompts, similarity = about.get("prompts") or {}, about.get("similarity_fn_name") or "cosine"
    named = isinstance(prompts, dict) and all(isinstance(text, str) for text in prompts.values())
    if not named or not isinstance(similarity, str):
        raise LoadError(
            f"{folder / 'config_sentence_transformers.json'} must give prompts and a similarity as "
            "texts; get it again."
        )
    if length is not None and (type(length) is not int or length < 1):
        raise LoadError(
            f"{base / 'sentence_bert_config.json'} has max_seq_length = {length!r}; it must be a "
            "whole number of at least 1."
        )
    return Pooling(
        modes=modes or ("mean",),
        normalize=normalize,
        length=length,
        prompts=prompts,
        prompt=about.get("default_prompt_name"),
        skip_prompt=skip,
        similarity=similarity,
    )


def write_pooling(pooling: Pooling, folder: Path, width: int) -> None:
    """Writes files that every version of sentence-transformers reads.

    `width` is that of the hidden states.
    """
    steps = ["Transformer", "Pooling", *(["Normalize"] if pooling.normalize else [])]
    paths = ["" if number == 0 else f"{number}_{step}" for number, step in enumerate(steps)]
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{step}"}
        for i, (step, path) in enumerate(zip(steps, paths, strict=True))
    ]
    config: dict[str, Any] = {"word_embedding_dimension": width}
    config |= {key: mode in pooling.modes for mode, key in OLDER.items()}
    if _modes(config, folder) != pooling.modes:  # an order that the flags cannot express
        named = [THEIRS[mode] for mode in pooling.modes]
        config = {"embedding_dimension": width, "pooling_mode": named}
    files: dict[str, Any] = {
        "modules.json": modules,
        "1_Pooling/config.json": config | {"include_prompt": not pooling.skip_prompt},
        "config_sentence_transformers.json": {
            "prompts": dict(pooling.prompts),
            "default_prompt_name": pooling.prompt,
            "similarity_fn_name": pooling.similarity,
        },
        "sentence_bert_config.json": {"max_seq_length": pooling.length, "do_lower_case": False},
    }
    if pooling.normalize:
        files["2_Normalize/config.json"] = {}
    for name, value in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(value, indent=2) + "\n", "utf-8")


def _modes(settings: Mapping[str, Any], path: Path) -> tuple[str, ...]:
    named = settings.get("pooling_mode")
    if named is not None:
        ours = {their: own for own, their in THEIRS.items()}
        modes = named if isinstance(named, list) else [named]
        unknown = [mode for mode in modes if not isinstance(mode, str) or mode not in ours]
        if unknown:
            raise UnsupportedError(
                f"{path / 'config.json'} has the unknown pooling {unknown[0]!r}.",
                field="pooling_mode",
            )
        return tuple(ours[mode] for mode in modes)
    order = ("first", "max", "mean", "root", "weighted", "last")  # sentence-transformers' order
    return tuple(mode for mode in order if settings.get(OLDER[mode]))


def _optional(path: Path) -> dict[str, Any]:
    return read_json(path, dict) if path.is_file() else {}
