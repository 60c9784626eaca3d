"""Constrained generation: the new text must match a regular expression."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import ConfigError, UnsupportedError
from glassformer.generate.config import GenerationConfig
from glassformer.generate.history import SequenceState
from glassformer.generate.processors import NEVER, Processor
from glassformer.text import Tokenizer

END = ""  # key for the tokens that are complete at a node of the trie


def match(config: GenerationConfig, tokenizer: Tokenizer, translates: bool) -> Processor:
    """Returns a processor that allows only tokens with which the text can still match.

    The new text as a whole must match the expression, and may end only then. For an encoder-decoder
    (`translates`) the new text does not continue a prompt.
    """
    regex = _import_regex()
    assert config.regex is not None
    try:
        pattern = regex.compile(config.regex)
    except regex.error as error:
        raise ConfigError(f"{config.regex!r} is no regular expression: {error}.") from None
    if not config.eos_token_id:
        raise ConfigError(
            "A text that matches a regular expression is ended by a token, and the model has none; "
            "give one as eos_token_id."
        )
    tree = text_tree(tokenizer)

    @lru_cache(maxsize=4096)
    def allowed(text: str) -> tuple[int, ...]:
        found: list[int] = []
        waiting: list[tuple[dict[str, Any], str]] = [(tree, text)]
        while waiting:
            node, so_far = waiting.pop()
            for letter, below in node.items():
                if letter == END:
                    found += below
                elif pattern.fullmatch(so_far + letter, partial=True):
                    waiting.append((below, so_far + letter))
        if pattern.fullmatch(text):
            found += config.eos_token_id
        return tuple(found)

    def process(history: SequenceState, scores: Tensor) -> Tensor:
        mask = torch.full_like(scores, NEVER)
        for row in range(len(history)):
            prompt = [] if translates else history.prompt_of(row)
            text = tokenizer.target_tokenizer.decode(history.new(row)[0], after=prompt)
            mask[row, [id for id in allowed(text) if id < scores.shape[1]]] = 0.0
        return scores + mask

    return process


@lru_cache(maxsize=4)
def text_tree(tokenizer: Tokenizer) -> dict[str, Any]:
    """Returns a trie of the texts of all tokens. Tokens with part of a character are left out."""
    target = tokenizer.target_tokenizer
    tree: dict[str, Any] = {}
    anchor = next(id for id in range(target.size) if target.decode([id]).strip())
    before = target.decode([anchor])
    for id in range(target.size):
        text = target.decode([anchor, id]).removeprefix(before)
        if not text or "\N{REPLACEMENT CHARACTER}" in text:
            continue
        node = tree
        for letter in text:
            node = node.setdefault(letter, {})
        node.setdefault(END, []).append(id)
    return tree


def _import_regex() -> Any:
    try:
        import regex  # type: ignore[import-untyped]
    except ImportError:
        raise UnsupportedError(
            "Constraining a text needs a package; pip install 'glassformer[regex]'."
        ) from None
    return regex
