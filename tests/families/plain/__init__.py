"""References for the models that `transformers` does not have: each written plainly from its paper.

One file a family, a subclass of `Plain` a published class. They share nothing with glassformer but
the names of config keys and tensors, and prefer loops and dense masks to anything clever.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import MappingProxyType, SimpleNamespace
from typing import Any, ClassVar, Self

from safetensors.torch import load_file, save_file
from torch import nn


class Plain(nn.Module):
    """Takes `input_ids` and `attention_mask` by name, and returns a dict with `logits`,
    `last_hidden_state`, ... as a class of transformers would."""

    model_type: ClassVar[str]
    tied: Mapping[str, str] = MappingProxyType({})  # a parameter that follows -> the one it follows

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.config = SimpleNamespace(**config)
        self.raw = config

    def adopt(self, body: nn.Module) -> list[nn.Module]:
        """For a bare model: the body's tensors become its own, without a prefix. Keep what is
        returned: the body in a list, where torch does not count it a second time."""
        for name, child in body.named_children():
            self.add_module(name, child)
        return [body]

    def tie_weights(self) -> None:
        for follower, kept in self.tied.items():
            owner, _, leaf = follower.rpartition(".")
            setattr(self.get_submodule(owner), leaf, self.get_parameter(kept))

    def save_pretrained(self, folder: Path) -> None:
        config = {**self.raw, "model_type": self.model_type, "architectures": [type(self).__name__]}
        (folder / "config.json").write_text(json.dumps(config))
        tensors = {k: v.contiguous() for k, v in self.state_dict().items() if k not in self.tied}
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})

    @classmethod
    def from_pretrained(cls, folder: Path, **_: Any) -> tuple[Self, dict[str, Any]]:
        model = cls(json.loads((folder / "config.json").read_text()))
        model.tie_weights()
        found = load_file(folder / "model.safetensors")
        result = model.load_state_dict(found, strict=False)
        return model, {
            "missing_keys": set(result.missing_keys) - set(model.tied),
            "unexpected_keys": result.unexpected_keys,
            "mismatched_keys": (),
        }


def _subclasses(kind: type[Plain]) -> list[type[Plain]]:
    return [found for sub in kind.__subclasses__() for found in (sub, *_subclasses(sub))]


def classes() -> dict[str, type[Plain]]:
    for found in iter_modules(__path__):
        import_module(f"{__name__}.{found.name}")
    return {kind.__name__: kind for kind in _subclasses(Plain) if hasattr(kind, "model_type")}
