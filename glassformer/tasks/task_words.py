"""The words for tasks: verbs, objectives, tasks of `evaluate`, and other common names."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from glassformer.errors import ConfigError
from glassformer.tasks.registry import TASKS, TaskDeclaration
from glassformer.weights.folder_kind import recipe_of

SYNONYMS = {  # of verbs; objectives and tasks of `evaluate` are found by their verb
    "classify": (
        *("classification", "text-classification", "sequence-classification", "classifier"),
        *("sentiment", "regression"),
    ),
    "tag": ("tagging", "ner", "token-classification", "named-entity-recognition", "pos"),
    "answer": ("question-answering", "qa", "span", "extractive-qa", "squad"),
    "translate": ("translation", "mt"),
    "summarize": ("summarization", "summarise", "summarisation"),
    "transcribe": ("speech-recognition", "automatic-speech-recognition", "asr", "transcription"),
    "embed": ("embedding", "embeddings", "contrastive", "sentence-embeddings"),
    "generate": ("generation", "text-generation", "causal-lm", "language-modeling", "lm"),
    "fill": ("fill-mask", "masked-lm", "mlm"),
}


def verb_of(word: str) -> str | None:
    """Returns the verb that a word for a task stands for; None if it is none."""
    plain = word.strip().lower().replace("_", "-").replace(" ", "-")
    if plain in SYNONYMS:
        return plain
    return next((verb for verb, others in SYNONYMS.items() if plain in others), None)


def names_task(word: str) -> bool:
    """Whether a word stands for a task to train, and no run in a folder of that name."""
    return verb_of(word) is not None and not Path(word).is_file() and recipe_of(Path(word)) is None


def find_task(word: str) -> tuple[str, TaskDeclaration]:
    """Returns the verb and the declaration of a task, by any word for it."""
    verb = verb_of(word)
    if verb is None:
        raise ConfigError(f"There is no task {word!r}{near_task(word)}")
    return verb, TASKS.find(verb)


def near_task(word: str) -> str:
    """Returns the nearest task for an error message, or all of them."""
    known = {one: verb for verb, others in SYNONYMS.items() for one in (verb, *others)}
    near = get_close_matches(word.lower(), known, 1, cutoff=0.75)
    return f"; did you mean {known[near[0]]}?" if near else f"; there are {', '.join(SYNONYMS)}."
