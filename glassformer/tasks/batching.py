"""Batched inference over many texts, with results in the order of the texts.

Texts are taken in pools. Within a pool, texts of similar lengths form a batch, so that little
padding is computed. At most one pool is held at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from glassformer.core.versioning import one_call
from glassformer.errors import GlassformerError, InputError
from glassformer.tasks.model_protocol import TaskModel
from glassformer.text import BatchEncoding, TextEncoding, Tokenizer
from glassformer.text.backend import Text
from glassformer.text.checks import check_text

OnError = Literal["stop", "skip"]
Item = TypeVar("Item")
Result = TypeVar("Result")
POOL, FIRST = 1024, 32  # texts in a pool, and in the first one, so that the first results come soon
MAX_CHARS = 2**18  # of a pool of long texts


@dataclass(frozen=True)
class BatchLimits:
    """The size of batches.

    `tokens` is the maximum number of tokens, padding included; `padding` is the number of padding
    tokens up to which padding is cheaper than another batch.
    """

    tokens: int
    padding: int


LIMITS = {"cpu": BatchLimits(1024, 24), "cuda": BatchLimits(2**17, 4096)}


def batched(
    items: Iterable[Item],
    size: int = POOL,
    max_weight: float = math.inf,
    weigh: Callable[[Any], int] = lambda item: 0,
    first: int | None = None,
) -> Iterator[list[Item]]:
    """Groups items into lists of at most `size`.

    The item whose weight makes the total reach `max_weight` ends a list early. So does an item
    after which the iterator would wait for input: an iterator may have a method `ready` that
    returns whether its next item is available now.

    Args:
        items: The items.
        size: The maximum length of a list.
        max_weight: The total weight at which a list ends.
        weigh: Returns the weight of an item.
        first: The length of the first list; the following ones double until they reach `size`.
    """
    ready: Callable[[], bool] = getattr(items, "ready", lambda: True)
    batch: list[Item] = []
    weight, limit = 0, size if first is None else min(first, size)
    for item in items:
        batch.append(item)
        weight += weigh(item)
        if len(batch) == limit or weight >= max_weight or not ready():
            yield batch
            batch, weight, limit = [], 0, min(2 * limit, size)
    if batch:
        yield batch


def map_batched(
    items: Iterable[Item],
    function: Callable[[list[Item]], Iterable[Result]],
    size: int = POOL,
    first: int = FIRST,
) -> Iterator[Result]:
    """Applies a function to pools of items and yields its results.

    Args:
        items: Texts, pairs of texts, or other items.
        function: Returns a result for each item of a pool, in order.
        size: The maximum number of items of a pool; a pool of long texts has fewer.
        first: The number of items of the first pool; see `batched`.
    """
    for pool in batched(items, size, MAX_CHARS, num_chars, first):
        yield from function(pool)


def predict_batched(
    model: TaskModel,
    encodings: Sequence[TextEncoding | GlassformerError],
    forward: Callable[[dict[str, Tensor], list[TextEncoding]], Sequence[Result]],
    *,
    tokens: int | None = None,
    packed: bool = False,
) -> list[Result | GlassformerError]:
    """Runs a model on a pool of encoded texts and returns the results in the order of the texts.

    Args:
        model: The model.
        encodings: The encoded texts. An error in the place of a text is returned in that place.
        forward: Takes the inputs of the model, on its device, and the encodings of a batch; returns
            a result per text. It must cut off outputs at padding by the text's length.
        tokens: The maximum number of tokens of a batch; the default depends on the device.
        packed: Whether the model skips padding (see `packing.py`), so that any amount of it is
            allowed.
    """
    device = model.device
    limits = LIMITS.get(device.type, LIMITS["cuda"])
    limits = limits if tokens is None else replace(limits, tokens=tokens)
    limits = replace(limits, padding=limits.tokens) if packed else limits
    texts = {i: text for i, text in enumerate(encodings) if isinstance(text, TextEncoding)}
    results: dict[int, Result] = {}
    with one_call(), torch.inference_mode():
        for rows in buckets({row: len(text) for row, text in texts.items()}, limits):
            batch = [texts[row] for row in rows]
            outputs = forward(collate(model, batch, device), batch)
            results.update(zip(rows, outputs, strict=True))
    return [
        text if isinstance(text, GlassformerError) else results[row]
        for row, text in enumerate(encodings)
    ]


def encode_texts(
    tokenizer: Tokenizer, texts: Sequence[Text], max_length: int | None, *, refuse: bool = False
) -> list[TextEncoding | GlassformerError]:
    """Tokenizes texts; a text that cannot be read becomes an error in its place.

    Args:
        tokenizer: The tokenizer.
        texts: Texts or pairs of texts.
        max_length: The maximum number of tokens.
        refuse: Whether texts that are too long are errors. Otherwise they are truncated, and `cut`
            of the encoding is the number of removed tokens.
    """
    errors = [validate_text(text) for text in texts]
    valid = [text for text, error in zip(texts, errors, strict=True) if error is None]
    encodings = iter(tokenizer.encode_all(valid, max_length=max_length))
    found = [next(encodings) if error is None else error for error in errors]
    return [_refused(one, max_length) if refuse else one for one in found]


def _refused(
    text: TextEncoding | GlassformerError, max_length: int | None
) -> TextEncoding | GlassformerError:
    if isinstance(text, GlassformerError) or not text.cut:
        return text
    size = len(text) + text.cut
    return InputError(f"The text has {size} tokens, and the model can read {max_length}.")


def num_chars(text: Any) -> int:
    """Returns the characters of a text, a pair or a list of words; 0 for anything else."""
    if isinstance(text, tuple | list):
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


def buckets(lengths: Mapping[int, int], limits: BatchLimits) -> Iterator[list[int]]:
    """Yields batches of texts of similar length, the longest first."""
    batch: list[int] = []
    width = padding = 0
    for row in sorted(lengths, key=lambda row: -lengths[row]):
        padding += width - lengths[row]
        if not batch or width * (len(batch) + 1) > limits.tokens or padding > limits.padding:
            if batch:
                yield batch
            batch, width, padding = [], lengths[row], 0
        batch.append(row)
    if batch:
        yield batch


def collate(
    model: TaskModel, texts: Sequence[TextEncoding], device: torch.device
) -> dict[str, Tensor]:
    """Returns the inputs of a model: rows of one length, with padding after the shorter texts.

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


class Results(list[Any]):
    """The results of a list of inputs.

    Attributes:
        skipped: The reasons by the index of each input that was skipped.
    """

    def __init__(self) -> None:
        super().__init__()
        self.skipped: dict[int, str] = {}


def apply_to(
    model: TaskModel,
    texts: Any,
    task: Callable[[Iterable[Any]], Iterable[Result | GlassformerError]],
    pairs: bool = False,
    on_error: OnError = "stop",
) -> Any:
    """Applies a task of a model to a text, a list or an iterator.

    A text (or, with `pairs`, a tuple of two) gives a result, a list (or the column of a table) a
    list, and an iterator an iterator whose results are yielded as they are computed. An error is
    raised in its turn, or with `on_error` "skip" listed in `Results.skipped`.
    """
    if on_error not in ("stop", "skip"):
        raise InputError(f'on_error is "stop" or "skip", not {on_error!r}.')
    if isinstance(texts, str) or (pairs and isinstance(texts, tuple) and len(texts) == 2):
        return next(raise_errors(task([texts])))
    given = require_iterable(texts)
    if on_error == "skip" and not isinstance(texts, Iterator):
        found = Results()
        for number, result in enumerate(task(given)):
            if isinstance(result, GlassformerError):
                found.skipped[number] = str(result)
            else:
                found.append(result)
        return found
    results = raise_errors(task(given), model)
    return results if isinstance(texts, Iterator) else list(results)


def require_iterable(texts: Any) -> Iterable[Any]:
    """Returns texts that can be iterated over; a table is an error that names its columns."""
    names = columns_of_table(texts)
    if names:
        named = next((name for name in names if name.lower() in ("text", "sentence")), names[0])
        raise InputError(
            f"This is a table with the columns {', '.join(names)}; give the column with the texts, "
            f"such as [{named!r}]."
        )
    if isinstance(texts, Iterable):
        return texts
    raise InputError(f"Give a text, or a list or an iterator, not {type(texts).__name__}.")


def columns_of_table(texts: Any) -> list[str]:
    """Returns the columns of a DataFrame, a Dataset or a dict of columns; else an empty list."""
    if isinstance(texts, Mapping):
        return [str(name) for name in texts]
    names = getattr(texts, "column_names", None)  # of a Dataset
    return [str(name) for name in (getattr(texts, "columns", ()) if names is None else names)]


def raise_errors(
    results: Iterable[Result | GlassformerError], model: TaskModel | None = None
) -> Iterator[Result]:
    """Yields results up to the first error, which is raised.

    The model stays referenced until the end, because a kept task refers to it weakly.
    """
    for result in results:
        if isinstance(result, GlassformerError):
            raise result
        yield result
