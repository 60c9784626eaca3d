"""Batched inference over many texts, with results in the order of the texts.

Texts are taken from a look-ahead pool in the order of their lengths, so that the texts of a batch
have similar lengths and little padding is computed. At most one pool is held at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeVar

import torch
from torch import Tensor

from glassformer.core import Transformer
from glassformer.errors import GlassformerError, InputError
from glassformer.tasks.model_protocol import TaskModel, longest, require_tokenizer
from glassformer.text import BatchEncoding, TextEncoding
from glassformer.text.backend import Text
from glassformer.text.tokenizer import check_text

Item = TypeVar("Item")
Result = TypeVar("Result")
POOL, FIRST = 1024, 32  # texts in a pool, and in the first one, so that the first results come soon
LETTERS, TOKENS = 2**18, 2**16  # the most characters and tokens of a pool of long texts


@dataclass(frozen=True)
class BatchLimits:
    """The size of batches.

    `tokens` is the maximum number of tokens, padding included; `padding` is the number of padding
    tokens up to which padding is cheaper than another batch.
    """

    tokens: int
    padding: int


ROOMS = {"cpu": BatchLimits(1024, 24), "cuda": BatchLimits(2**17, 4096)}


class Pause(Enum):
    """Marks a place in a stream of texts where the next text is not available yet.

    The texts before it are computed immediately. Callers that follow a growing stream insert it so
    that results do not wait for a pool to fill.
    """

    PAUSE = 0


PAUSE = Pause.PAUSE


def batched(
    items: Iterable[Item | Pause],
    size: int = POOL,
    room: float = math.inf,
    weigh: Callable[[Any], int] = lambda item: 0,
    first: int | None = None,
) -> Iterator[list[Item]]:
    """Groups items into lists of at most `size`.

    A pause ends a list early, and so does the item whose weight makes the total reach `room`.

    Args:
        items: The items.
        size: The maximum length of a list.
        room: The total weight at which a list ends.
        weigh: Returns the weight of an item.
        first: The length of the first list; the following ones double until they reach `size`.
    """
    held: list[Item] = []
    weight, most = 0, size if first is None else min(first, size)
    for item in items:
        if not isinstance(item, Pause):
            held.append(item)
            weight += weigh(item)
        if held and (item is PAUSE or len(held) == most or weight >= room):
            yield held
            held, weight, most = [], 0, min(2 * most, size)
    if held:
        yield held


def map_batched(
    items: Iterable[Item | Pause],
    work: Callable[[list[Item]], Iterable[Result]],
    size: int = POOL,
) -> Iterator[Result | Pause]:
    """Applies `work` to pools of items, for work such as tokenization that is faster for many.

    Pauses are passed on to the consumer of the results.
    """
    for chunk in batched(items, size, LETTERS, num_chars):
        yield from work(chunk)
        if len(chunk) < size:
            yield PAUSE


def encoded(
    model: TaskModel,
    texts: Iterable[Text | Pause],
    *,
    max_length: int | None = None,
    refuse: bool = False,
) -> Iterator[TextEncoding | GlassformerError | Pause]:
    """Tokenizes texts for a model; a text that cannot be read becomes an error in its place.

    Args:
        model: The model, with its tokenizer.
        texts: Texts or pairs of texts.
        max_length: The maximum number of tokens; the default is the model's.
        refuse: Whether texts that are too long are errors. Otherwise they are truncated, and `cut`
            of the encoding is the number of removed tokens.
    """
    tokenizer, limit = require_tokenizer(model), longest(model, max_length)

    def read(chunk: list[Any]) -> Iterator[TextEncoding | GlassformerError]:
        wrong = [validate_text(text) for text in chunk]
        good = [text for text, error in zip(chunk, wrong, strict=True) if error is None]
        whole = iter(tokenizer.encode_all(good, max_length=limit))
        for error in wrong:
            text = next(whole) if error is None else error
            if refuse and isinstance(text, TextEncoding) and text.cut:
                size = len(text) + text.cut
                text = InputError(f"The text has {size} tokens, of {limit} that can be read.")
            yield text

    return map_batched(texts, read)


def num_chars(text: Any) -> int:
    """Returns the characters of a text or a pair; 0 for an error in their place."""
    if isinstance(text, tuple):
        return sum(map(num_chars, text))
    return len(text) if isinstance(text, str) else 0


def validate_text(text: Text) -> GlassformerError | None:
    """Returns an error if the text is not a valid, non-empty text."""
    try:
        check_text(text)
    except GlassformerError as error:
        return error
    empty = not any(part.strip() for part in ([text] if isinstance(text, str) else text))
    return InputError("The text is empty.") if empty else None


def predict_batched(
    model: TaskModel,
    encodings: Iterable[TextEncoding | GlassformerError | Pause],
    forward: Callable[[dict[str, Tensor], list[TextEncoding]], Sequence[Result]],
    *,
    tokens: int | None = None,
    pool: int = POOL,
    flat: bool = False,
) -> Iterator[Result | GlassformerError]:
    """Runs a model on encoded texts in batches and yields results in the order of the texts.

    An error in the place of a text is yielded in that place.

    Args:
        model: The model.
        encodings: The encoded texts.
        forward: Takes the inputs of the net, on its device, and the encodings of the batch; returns
            a result per text. It must cut off outputs at padding by the text's length.
        tokens: The maximum number of tokens of a batch; the default depends on the device.
        pool: The number of texts in a pool.
        flat: Whether the net skips padding (see `packing.py`), so that any amount of it is allowed.
    """
    device = device_of(model)
    room = ROOMS.get(device.type, ROOMS["cuda"])
    room = room if tokens is None else replace(room, tokens=tokens)
    room = replace(room, padding=room.tokens) if flat else room
    for items in batched(encodings, pool, TOKENS, tokens_of, FIRST):
        results: dict[int, Result | GlassformerError] = {
            i: item for i, item in enumerate(items) if isinstance(item, GlassformerError)
        }
        texts = {i: item for i, item in enumerate(items) if isinstance(item, TextEncoding)}
        for rows in buckets({i: len(text) for i, text in texts.items()}, room):
            batch = [texts[row] for row in rows]
            with torch.inference_mode():
                found = forward(collate(model, batch, device), batch)
            for row, result in zip(rows, found, strict=True):
                results[row] = result
        count = len(items)
        for held in (items, texts):  # the inputs are not needed while results are consumed
            held.clear()
        yield from (results.pop(row) for row in range(count))


def tokens_of(item: TextEncoding | GlassformerError) -> int:
    return len(item) if isinstance(item, TextEncoding) else 0


def buckets(lengths: Mapping[int, int], room: BatchLimits) -> Iterator[list[int]]:
    """Yields batches of texts of similar length, the longest first."""
    batch: list[int] = []
    width = padding = 0
    for row in sorted(lengths, key=lambda row: -lengths[row]):
        padding += width - lengths[row]
        if not batch or width * (len(batch) + 1) > room.tokens or padding > room.padding:
            if batch:
                yield batch
            batch, width, padding = [], lengths[row], 0
        batch.append(row)
    if batch:
        yield batch


def collate(
    model: TaskModel, texts: Sequence[TextEncoding], device: torch.device
) -> dict[str, Tensor]:
    """Returns the inputs of a net: rows of one length, with padding after the shorter texts.

    Without padding there is no attention mask, because a mask that is True everywhere only costs
    time.
    """
    stack, pad = model.spec.last_stack, model.spec.tokens.pad
    segmented = stack.embed.segments > 1 or stack.scores_segments
    batch = BatchEncoding.of(
        list(texts), pad=pad or 0, length=None, side="right", segments=0 if segmented else None
    )
    inputs = {"input_ids": batch.tokens}
    if len(set(map(len, texts))) > 1 or (pad is not None and bool(batch.tokens.eq(pad).any())):
        inputs["attention_mask"] = batch.mask
    if batch.segments is not None:
        inputs["token_type_ids"] = batch.segments
    return {name: value.to(device, non_blocking=True) for name, value in inputs.items()}


def device_of(net: Transformer) -> torch.device:
    return next(net.parameters()).device
