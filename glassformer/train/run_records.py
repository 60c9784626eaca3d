"""The forms (`has_form`) of the JSON files in a run folder, by which damaged ones are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from glassformer.errors import LoadError
from glassformer.storage.parsing import has_form, read_json

NOTHING: tuple[Any, ...] = ()  # no alternatives: no other keys
NUMBERS = {"*": float}
EVALUATION = {"step": int, "valid?": {"loss": float, "*": float}, "test?": NUMBERS}
LOGGED_STEP = {
    **EVALUATION,
    "loss": float,
    "tokens": int,
    "learning_rate": float,
    "gradient": float,
    "parts?": NUMBERS,
    "speed": {"tokens_per_second": float, "*": float},
}
FINISHED = {
    "step": int,
    "best": float,
    "best_step": int,
    "stopped": bool,
    "test?": NUMBERS,
}
PROGRESS = {
    "step": int,
    "tokens": int,
    "best?": float,
    "best_step?": int,
    "test?": NUMBERS,
    "evaluations_since_best?": int,
    "stopped?": bool,
    "scaler?": NUMBERS,
    "tokens_per_epoch?": int,
    "tokenizer?": str,
    "metric_history?": [float],
    "averaging_start?": int,
    "random_choices?": int,
    "stale?": int,
    "epoch?": int,
    "judged?": [float],
    "averaged?": int,  # of version 0.1
}
ABOUT = {
    **dict.fromkeys(("architecture", "device"), str),
    **dict.fromkeys(("parameters", "trained", "body", "tokens_epoch"), int),
    "flops_token": float,
    "steps?": float,
    "versions": {"*": str},
    "data": {"*": {"count": int, "bytes": int, "first": [list]}},
}
COUNTS = ["rows", "unused", "texts", "tokens", "truncated", "cut_tokens", "longest", "respelled",
          "too_long"]  # fmt: skip
TALLY = {
    "labels": {"*": {"*": int}},
    **{f"{name}?": int for name in COUNTS},
    "seconds?": float,
    "speakers?": {"*": int},
    "*": NOTHING,
}
SUMMARY = {
    "splits": {
        "*": {
            "files": [str],
            "skipped": int,
            "reasons": [str],
            "documents": int,
            "examples": int,
            "tally": TALLY,
        }
    }
}
INPUTS = {"*": {"*": str}}


def read_record(path: Path, form: Any) -> dict[str, Any]:
    """Returns the JSON object of a file that a run has written."""
    content: dict[str, Any] = read_json(path)
    if not has_form(content, form):
        raise LoadError(f"{path} is not as a run has written it; put it back as it was.")
    return content
