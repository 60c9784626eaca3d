"""What the tasks need of a model: heads, task settings, labels and length limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from glassformer.core import Transformer
from glassformer.errors import ConfigError, GlassformerError, InputError, UnsupportedError
from glassformer.generate import Generator
from glassformer.generate.context import context_length
from glassformer.spec import AudioFramesSpec, HeadSpec, ModelSpec, PatchEmbeddingSpec, head_among
from glassformer.tasks.pooling import Pooling
from glassformer.text import Tokenizer

Result = TypeVar("Result")
SETTINGS = "task_specific_params"  # a key of config.json that transformers keeps and ignores
TRAINED = "text2text"  # under this name training saves the layout of sources, for any task
HEADS = {  # a description of each kind of head, and the objective that trains it
    "classify": ("a head for whole texts", "classification"),
    "tag": ("a head for every word", "tagging"),
    "span": ("a head for answers", "span"),
    "choose": ("a head for choices", "multiple-choice"),
    "lm": ("a head for the vocabulary", "causal-lm"),
    "pooler": ("a head for one vector", "contrastive"),
}
WRITERS = {  # tasks whose language modeling head has a training objective of its own
    "fill": "masked-lm",
    "translate": "sequence-to-sequence or continuation",
    "summarize": "sequence-to-sequence or continuation",
}


class TaskModel(Protocol):
    """The part of `glassformer.Model` that tasks use."""

    net: Transformer
    config: dict[str, Any]
    architecture: str
    generation: dict[str, Any] | None

    @property
    def spec(self) -> ModelSpec: ...

    @property
    def tokenizer(self) -> Tokenizer | None: ...

    @property
    def pooling(self) -> Pooling | None: ...

    @property
    def writer(self) -> Generator: ...

    def generate(self, prompt: Any = None, **knobs: Any) -> Any: ...


def kind_of(head: HeadSpec, spec: ModelSpec) -> str:
    """Returns the kind of a head, even if training added it under another name."""
    if head.name in HEADS:
        return head.name
    if head.beam is not None:
        return "span"
    if head.multiple_choice:
        return "choose"
    if head.num_outputs is None:
        return "pooler"
    if head.pooling != "each":
        return "classify"
    return "lm" if head.num_outputs == spec.last_stack.embed.vocabulary else "tag"


def fitting_verbs(model: TaskModel) -> list[str]:
    """Returns the tasks that a model's heads are suited for."""
    spec = model.spec
    both = spec.encoder is not None and spec.decoder is not None
    listens = spec.encoder is not None and isinstance(
        spec.encoder.embed, AudioFramesSpec | PatchEmbeddingSpec
    )
    rewrites = (both and not listens) or "separator" in settings_of(model, TRAINED)
    writes = ["translate", "summarize"] if rewrites else []
    writes += [] if both and rewrites else ["generate"]
    of_kind = {
        "classify": ["classify"],
        "tag": ["tag"],
        "span": ["answer"],
        "choose": ["evaluate"],
        "lm": ["fill"] if spec.decoder is None else writes,
        "pooler": ["embed"],
    }
    found = [verb for head in spec.heads for verb in of_kind[kind_of(head, spec)]]
    return list(dict.fromkeys(found)) or ["embed"]


def purpose(model: TaskModel) -> str:
    """Describes the fitting tasks for an error message."""
    *others, last = fitting_verbs(model)
    verbs = f"{', '.join(others)} or {last}" if others else last
    return f"a model to {verbs} with"


def require_head(model: TaskModel, kind: str, verb: str, name: str | None = None) -> HeadSpec:
    """Returns the model's head of a kind, or raises if there is none.

    Args:
        model: The model.
        kind: The kind of head, a key of `HEADS`.
        verb: The task, for error messages.
        name: The name of the head; required if there are several of the kind.
    """
    heads = [head for head in model.spec.heads if kind_of(head, model.spec) == kind]
    if not heads:
        what, objective = HEADS[kind]
        objective = WRITERS.get(verb, objective)
        raise UnsupportedError(
            f"{verb} needs {what}, and {model.architecture} has none; it is {purpose(model)} "
            f"(train one by the objective {objective})."
        )
    if name is None and len(heads) > 1:
        has = ", ".join(head.name for head in heads)
        raise ConfigError(f"Say which head is meant (--head): the model has {has}.")
    return head_among(heads, name, f" to {verb} with")


def require_tokenizer(model: TaskModel) -> Tokenizer:
    if model.tokenizer is None:
        raise UnsupportedError("This folder has no tokenizer, so that no text can be read.")
    return model.tokenizer


def settings_of(model: TaskModel, task: str) -> Mapping[str, Any]:
    """Returns the settings in config.json of a task or a head: thresholds, labels, a prefix."""
    tasks = model.config.get(SETTINGS) or {}
    found = tasks.get(task, {}) if isinstance(tasks, Mapping) else None
    if not isinstance(found, Mapping):
        raise ConfigError(
            f"config.json gives {SETTINGS}.{task} the value {found!r}; it must be an object."
        )
    return found


def keep_settings(model: TaskModel, task: str, **settings: Any) -> None:
    """Stores settings that are saved with the model; None deletes one."""
    kept = {k: v for k, v in {**settings_of(model, task), **settings}.items() if v is not None}
    model.config[SETTINGS] = {**(model.config.get(SETTINGS) or {}), task: kept}


def labels_of(model: TaskModel, head: HeadSpec) -> Sequence[str]:
    """Returns the head's own labels if config.json has them, else the model's."""
    names = settings_of(model, head.name).get("labels") or model.spec.labels
    if len(names) != head.num_outputs:
        raise ConfigError(
            f"The head {head.name!r} of {model.architecture} has {head.num_outputs} outputs, and "
            f"config.json names {len(names)} labels (id2label, {SETTINGS}.{head.name}.labels)."
        )
    return tuple(map(str, names))


def text_stack(model: TaskModel) -> Any:
    """Returns the stack of the net that reads text."""
    net = model.net
    reads = net.encoder is not None and not isinstance(
        net.encoder.spec.embed, AudioFramesSpec | PatchEmbeddingSpec
    )
    return net.encoder if reads or net.decoder is None else net.decoder


def longest(model: TaskModel, asked: int | None = None) -> int | None:
    """Returns the maximum number of tokens of a text, or None if there is no limit.

    It is the smaller of the requested length (or else the tokenizer's) and the number of positions.
    """
    positions = context_length(text_stack(model))
    if asked is not None and positions is not None and asked > positions:
        raise ConfigError(f"A length of {asked} tokens is above the model's {positions} positions.")
    said = asked if asked is not None else require_tokenizer(model).max_length
    limits = [limit for limit in (said, positions) if limit is not None]
    return min(limits, default=None)


def apply_to(
    given: Any,
    each: Callable[[Iterable[Any]], Iterable[Result | GlassformerError]],
    pairs: bool = False,
) -> Any:
    """Applies a function of an iterable to a text, a list or an iterator.

    A text (or, with `pairs`, a tuple of two) gives a result, a list a list, and an iterator an
    iterator whose results are yielded as they are computed.
    """
    if isinstance(given, str) or (pairs and isinstance(given, tuple) and len(given) == 2):
        return next(raise_errors(each([given])))
    results = raise_errors(each(texts_of(given)))
    return list(results) if isinstance(given, Sequence) else results


def texts_of(given: Any) -> Iterable[Any]:
    if isinstance(given, Iterable):
        return given
    raise InputError(f"Give a text, or a list or an iterator, not {type(given).__name__}.")


def raise_errors(results: Iterable[Result | GlassformerError]) -> Iterator[Result]:
    """Yields results up to the first error, which is raised."""
    for result in results:
        if isinstance(result, GlassformerError):
            raise result
        yield result
