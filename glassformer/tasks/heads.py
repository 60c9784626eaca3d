"""The kinds of a model's heads, and the tasks that they are suited for."""

from __future__ import annotations

from glassformer.errors import ConfigError, UnsupportedError
from glassformer.spec import AudioFramesSpec, HeadSpec, ModelSpec, PatchEmbeddingSpec, head_among
from glassformer.tasks.model_protocol import TaskModel
from glassformer.tasks.task_settings import TRAINED, settings_of

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


def kind_of(head: HeadSpec, spec: ModelSpec) -> str:
    """Returns the kind of a head, even if training added it under another name."""
    if head.name in HEADS:
        return head.name
    if head.beam is not None:
        return "span"
    if head.choices:
        return "choose"
    if head.outputs is None:
        return "pooler"
    if head.pick != "each":
        return "classify"
    return "lm" if head.outputs == spec.last_stack.embed.vocabulary else "tag"


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
