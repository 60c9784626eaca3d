"""Few-shot prompts: solved examples before the prompt, whose pattern the new text follows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from glassformer.errors import DataError


def split_examples(text: str, path: Path) -> list[str]:
    """Splits the text of a file into examples.

    Args:
        text: One example per line; if there are blank lines, examples of several lines between
            them.
        path: The file, for errors.
    """
    text = text.removeprefix("\ufeff").strip("\n")
    blocks = re.split(r"\n(?:[ \t]*\n)+", text)
    examples = blocks if len(blocks) > 1 else text.split("\n")
    if not text.strip():
        raise DataError(f"{path} has no examples; write one on each line.", path=path)
    return examples


def example_separator(examples: Sequence[str]) -> str:
    """Returns what separates the examples: a blank line if one of them has several lines."""
    return "\n\n" if any("\n" in example for example in examples) else "\n"


def few_shot_prompt(examples: Sequence[str], prompt: str) -> str:
    """Puts the examples before the prompt.

    Args:
        examples: The examples.
        prompt: The text to continue.
    """
    return example_separator(examples).join([*examples, prompt])
