"""The kinds of a model's heads, and the tasks that they are suited for."""

from __future__ import annotations

from glassformer.errors import ConfigError, UnsupportedError
from glassformer.spec import AudioFramesSpec, HeadSpec, ModelSpec, PatchEmbeddingSpec, head_among
from glassformer.tasks.model_protocol import TaskModel
from glassformer.tasks.registry import TASKS, TaskDeclaration, TrainingData
from glassformer.tasks.task_settings import TRAINED, settings_of

HEADS = {  # a description of each kind of head
    "classify": "a head for whole texts",
    "tag": "a head for every word",
    "span": "a head for answers",
    "choose": "a head for choices",
    "lm": "a head for the vocabulary",
    "pooler": "a head for one vector",
    "ctc": "a head for the letters of a sound",
}


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
    """Returns the verbs that a model's heads are suited for."""
    found = [
        verb
        for head in model.spec.heads
        for verb, task in TASKS.all().items()
        if task.head == kind_of(head, model.spec) and task.fits(model)
    ]
    return list(dict.fromkeys(found)) or ["embed"]


def rewrites(model: TaskModel) -> bool:
    """Returns whether a model reads a text and writes another."""
    spec = model.spec
    if spec.encoder is None or spec.decoder is None:
        return spec.decoder is not None and "separator" in settings_of(model, TRAINED)
    return not isinstance(spec.encoder.embed, AudioFramesSpec | PatchEmbeddingSpec)


def _continues(model: TaskModel) -> bool:
    both = model.spec.encoder is not None and model.spec.decoder is not None
    return model.spec.decoder is not None and not (both and rewrites(model))


# Verbs whose implementation is not a module of this folder
TASKS.register(
    "generate",
    TaskDeclaration(
        head="lm",
        objective="causal-lm",
        fits=_continues,
        training=TrainingData(
            columns={"text": ("sentence", "content", "document", "body", "story")},
            evaluation="perplexity",
            format="text",
        ),
    ),
)
TASKS.register("evaluate", TaskDeclaration(head="choose", objective="multiple-choice"))


def purpose(model: TaskModel) -> str:
    """Describes the fitting tasks for an error message."""
    *others, last = fitting_verbs(model)
    verbs = f"{', '.join(others)} or {last}" if others else last
    return f"a model to {verbs} with"


def require_head(
    model: TaskModel,
    kind: str,
    verb: str,
    name: str | None = None,
    *,
    objective: str | None = None,
) -> HeadSpec:
    """Returns the model's head of a kind, or raises if there is none.

    Args:
        model: The model.
        kind: The kind of head, a key of `HEADS`.
        verb: The task, for error messages.
        name: The name of the head; required if there are several of the kind.
        objective: The objective that trains such a head; by default that of the verb's task.
    """
    heads = [head for head in model.spec.heads if kind_of(head, model.spec) == kind]
    if not heads:
        objective = objective or TASKS.find(verb).objective
        raise UnsupportedError(
            f"{verb} needs {HEADS[kind]}, and {model.architecture} has none; it is "
            f"{purpose(model)} (train one with the objective {objective})."
        )
    if name is None and len(heads) > 1:
        has = ", ".join(head.name for head in heads)
        raise ConfigError(f"Name the head (--head): the model has {has}.")
    return head_among(heads, name, f" to {verb} with")
