"""Many texts through a net. Encoded texts come in, results go out in the same order.

Texts are taken from a look-ahead pool in the order of their lengths, so that those of a batch are
about equally long and hardly any padding is computed. No more than a pool is held at a time.
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
from glassformer.errors import GlassformerError
from glassformer.tasks.model_protocol import TaskModel, longest, require_tokenizer
from glassformer.text import BatchEncoding, TextEncoding
from glassformer.text.backend import Text
from glassformer.text.tokenizer import check_text

Item = TypeVar("Item")
Result = TypeVar("Result")
POOL, FIRST = 1024, 32  # texts; and of the first pool, so that the first results come soon
LETTERS, TOKENS = 2**18, 2**16  # that a pool of long texts has


@dataclass(frozen=True)
class BatchLimits:
    """How large a batch may be, in tokens with its padding, and how much padding is cheaper than
    one batch more."""

    tokens: int
    padding: int


ROOMS = {"cpu": BatchLimits(1024, 24), "cuda": BatchLimits(2**17, 4096)}


class Pause(Enum):
    """Stands in a stream of texts where the next one is not there yet: what has come is computed
    now. Whoever follows a growing stream says so, and results don't wait for a pool to fill."""

    PAUSE = 0


PAUSE = Pause.PAUSE


def batched(
    items: Iterable[Item | Pause],
    size: int = POOL,
    room: float = math.inf,
    weigh: Callable[[Any], int] = lambda item: 0,
    first: int | None = None,
) -> Iterator[list[Item]]:
    """Lists of at most so many; a pause ends one early, and so does the item with which they weigh
    as much as there is room for. Those that begin with `first` grow until they have the size."""
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
    """What some work makes of a pool of items at a time, such as tokenizing, which is faster for
    many. Pauses go on to whom the results go."""
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
    """Texts as the model reads them, cut where they are too long (`cut` says by how much), or
    refused; what cannot be read is an error in its place."""
    tokenizer, limit = require_tokenizer(model), longest(model, max_length)

    def read(chunk: list[Any]) -> Iterator[TextEncoding | GlassformerError]:
        wrong = [validate_text(text) for text in chunk]
        good = [text for text, error in zip(chunk, wrong, strict=True) if error is None]
        whole = iter(tokenizer.encode_all(good, max_length=limit))
        for error in wrong:
            text = next(whole) if error is None else error
            if refuse and isinstance(text, TextEncoding) and text.cut:
                size = len(text) + text.cut
                text = GlassformerError(f"The text has {size} tokens, of {limit} that can be read.")
            yield text

    return map_batched(texts, read)


def num_chars(text: Any) -> int:
    """Of a text, a pair, or an error in their place."""
    if isinstance(text, tuple):
        return sum(map(num_chars, text))
    return len(text) if isinstance(text, str) else 0


def validate_text(text: Text) -> GlassformerError | None:
    try:
        check_text(text)
    except GlassformerError as error:
        return error
    empty = not any(part.strip() for part in ([text] if isinstance(text, str) else text))
    return GlassformerError("The text is empty.") if empty else None


def predict_batched(
    model: TaskModel,
    encodings: Iterable[TextEncoding | GlassformerError | Pause],
    forward: Callable[[dict[str, Tensor], list[TextEncoding]], Sequence[Result]],
    *,
    tokens: int | None = None,
    pool: int = POOL,
    flat: bool = False,
) -> Iterator[Result | GlassformerError]:
    """`forward` is given the inputs of a net, which lie on its device, and the texts they were
    made of, and gives a result for each; what it says of padding is cut off by a text's length.
    An error that stands in the place of a text comes out in that place. `flat`: the net is spared
    the padding (`flat.py`), so that there may be any amount of it."""
    device = device_of(model.net)
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
        for held in (items, texts):  # while results are looked at nobody needs what was read
            held.clear()
        yield from (results.pop(row) for row in range(count))


def tokens_of(item: TextEncoding | GlassformerError) -> int:
    return len(item) if isinstance(item, TextEncoding) else 0


def buckets(lengths: Mapping[int, int], room: BatchLimits) -> Iterator[list[int]]:
    """Batches of texts that are about equally long, the longest first."""
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
    """What a net is called with: rows of one length, with padding behind the shorter texts. Where
    there is none the mask is left out, since one that says nothing would only cost time."""
    stack, pad = model.spec.last_stack, model.spec.tokens.pad
    segmented = stack.embed.segments > 1 or stack.scores_segments
    batch = BatchEncoding.of(
        list(texts), pad=pad or 0, length=None, side="right", segments=0 if segmented else None
    )
    inputs = {"tokens": batch.tokens}
    if len(set(map(len, texts))) > 1 or (pad is not None and bool(batch.tokens.eq(pad).any())):
        inputs["mask"] = batch.mask
    if batch.segments is not None:
        inputs["segments"] = batch.segments
    return {name: value.to(device, non_blocking=True) for name, value in inputs.items()}


def device_of(net: Transformer) -> torch.device:
    return next(net.parameters()).device
