"""The model that a task starts from: its class, the head that it keeps or gets, and its size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from glassformer.errors import GlassformerError, UnsupportedError
from glassformer.families import classes_of, find_family, native, spec_from_config
from glassformer.find_model import find_folder
from glassformer.loading import describe
from glassformer.spec import HeadSpec, ModelSpec
from glassformer.tasks.heads import HEADS, kind_of
from glassformer.text import Tokenizer
from glassformer.text.loading.load import holds_tokenizer
from glassformer.weights.folder_kind import holds_adapter
from glassformer.weights.mapping import build_transformer, make_load_plan
from glassformer.weights.tensor_files import TensorFiles
from glassformer.weights.unused_tensors import unused_reasons


@dataclass(frozen=True)
class BaseModel:
    """The model that a run starts from, as its config.json describes it."""

    name: str

    @cached_property
    def _described(self) -> tuple[Mapping[str, Any], str, ModelSpec]:
        return describe(self.name, or_preset=False)

    @property
    def spec(self) -> ModelSpec:
        return self._described[2]

    @property
    def architecture(self) -> str:
        return self._described[1]

    @cached_property
    def parameters(self) -> int:
        return sum(one.numel() for one in build_transformer(self.spec).parameters())

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """The languages that its tokenizer has tokens for, of which one is the target."""
        return () if self.tokenizer is None else self.tokenizer.language_tokens

    @cached_property
    def tokenizer(self) -> Tokenizer | None:
        folder = find_folder(self.name)
        return Tokenizer.load(folder) if holds_tokenizer(folder) else None

    def head(self, kind: str) -> HeadSpec | None:
        """Returns its head of a kind; None if it has none, or several."""
        found = [
            head
            for head in self.spec.heads
            if not head.auxiliary and kind_of(head, self.spec) == kind
        ]
        return found[0] if len(found) == 1 and found[0].name == kind else None

    def settings(self, kind: str, verb: str, labels: Sequence[str]) -> tuple[dict[str, Any], str]:
        """Returns the [model] table for a kind of head, and a sentence on the head.

        The model keeps its head if that has these labels. Otherwise it gets a new one, and the
        heads of the base are left out.

        Args:
            kind: The kind of head, a key of `tasks.heads.HEADS`.
            verb: The task, for error messages.
            labels: The labels; empty for a head without labels.
        """
        own = self.head(kind)
        if kind == "pooler" or (own is not None and self._has(own, labels)):
            return {"base": self.name}, f"{self.name} ({self.architecture}) keeps its head."
        if kind == "lm":
            raise self._no_head(verb, kind)
        config, _, spec = self._described
        if config["model_type"] in native.MODEL_TYPES:
            heads = ", ".join(head.name for head in spec.heads)
            raise UnsupportedError(
                f"{self.name} has custom heads ({heads}), to which no other head can be added; "
                "start from zoo:encoder, or another model of a published class."
            )
        folder = find_folder(self.name)
        if holds_adapter(folder):
            raise UnsupportedError(
                f"{self.name} is an adapter, and another head needs the base model; start from "
                "the base model."
            )
        architecture = self._class_with(kind, verb)
        named = {**config, "architectures": [architecture]}
        if labels:
            named["id2label"] = {str(i): label for i, label in enumerate(labels)}
            named.pop("num_labels", None)
        plan = make_load_plan(named, architecture, TensorFiles(folder))
        reasons = unused_reasons(plan)
        head = [source for source in plan.sources if source.name.startswith("heads.")]
        old = [s for s in head if s.found is not None and ".transform." not in s.name]
        new = [source.expected.hf[0] for source in head if source.found is None or source in old]
        extra = [name for name in plan.unused() if name not in reasons]
        extra += [source.expected.hf[0] for source in old]
        made = _prefixes(new)
        settings: dict[str, Any] = {"base": self.name, "architecture": architecture}
        settings["init_missing"] = list(made)
        if extra:
            settings["ignore_unexpected"] = list(_prefixes(extra))
        size = f" for {len(labels)} labels" if len(labels) > 1 else ""
        gone = [HEADS[kind_of(one, spec)] for one in spec.heads if not one.auxiliary]
        dropped = f" It replaces {' and '.join(gone)}." if gone else ""
        return settings, f"{self.name} gets a new head{size} ({' and '.join(made)}).{dropped}"

    def _has(self, head: HeadSpec, labels: Sequence[str]) -> bool:
        if not labels or head.num_outputs is None:
            return True
        return set(self.spec.labels) >= set(labels) and len(self.spec.labels) == head.num_outputs

    def _class_with(self, kind: str, verb: str) -> str:
        """Returns the class of the model's type that has one head, of this kind."""
        config = self._described[0]
        for name in classes_of(find_family(config), config["model_type"]):
            try:
                spec = spec_from_config({**config, "architectures": [name]}, name)
            except GlassformerError:  # a class that this config does not describe
                continue
            heads = [head for head in spec.heads if not head.auxiliary]
            same = bool(spec.encoder) == bool(self.spec.encoder)
            if same and len(heads) == 1 and heads[0].name == kind and heads[0].beam is None:
                return name
        raise self._no_head(verb, kind)

    def _no_head(self, verb: str, kind: str) -> UnsupportedError:
        return UnsupportedError(
            f"{verb} needs {HEADS[kind]}, and none can be put on {self.name} "
            f"({self.architecture}); start from {SUGGESTED.get(verb, 'zoo:encoder')}."
        )


SUGGESTED = {
    "translate": "zoo:translator, or a decoder such as zoo:stories",
    "summarize": "zoo:translator, or a decoder such as zoo:stories",
    "generate": "a decoder such as zoo:stories or zoo:shakespeare",
    "fill": "an encoder such as zoo:encoder",
    "transcribe": "a folder of Whisper",
}


def _prefixes(names: Sequence[str]) -> tuple[str, ...]:
    """Returns the shortest list of modules that hold the tensors."""
    modules = sorted({name.rpartition(".")[0] or name for name in names})
    return tuple(
        dict.fromkeys(
            next(other for other in modules if (one + ".").startswith(other + "."))
            for one in modules
        )
    )
