"""Inference over long texts in windows, with results in order.

At most one pool of windows is held at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from torch import Tensor

from glassformer.errors import ConfigError, GlassformerError, InputError
from glassformer.tasks.batching import POOL, batched, predict_batched
from glassformer.tasks.model_protocol import TaskModel, longest
from glassformer.tasks.windows import TextWindow, WindowFrame
from glassformer.text import TextEncoding

About = TypeVar("About")
Result = TypeVar("Result")
USUAL_LENGTH = 512  # for models without a maximum length
MAX_TOKENS = 2**16  # of a pool of windows


@dataclass(frozen=True)
class WindowedJob(Generic[About]):
    """A text to read: its windows, and data (`about`) that is returned with the results."""

    about: About
    frame: WindowFrame
    windows: Iterator[TextWindow]


@dataclass(frozen=True)
class FramedWindow(Generic[About]):
    """A window with its frame around it, and the data of its text."""

    about: About
    window: TextWindow
    encoding: TextEncoding
    before: int  # the number of tokens of the frame before the window
    last: bool  # of its text


@dataclass(frozen=True)
class WindowResult(Generic[About, Result]):
    """The result of a window, whose tokens begin after the first `before` of the result."""

    about: About
    before: int
    window: TextWindow
    result: Result
    last: bool  # of its text


def predict_windows(
    model: TaskModel,
    jobs: Sequence[WindowedJob[About] | GlassformerError],
    forward: Callable[[dict[str, Tensor], list[TextEncoding]], Sequence[Result]],
    *,
    packed: bool = False,
) -> Iterator[WindowResult[About, Result] | GlassformerError]:
    """Runs a model on the windows of texts.

    An error ends its text, of which windows may have been yielded before. `packed` is that of
    `predict_batched`.
    """
    windows = (window for job in jobs for window in framed_windows(job))
    for pool in batched(windows, POOL, MAX_TOKENS, num_tokens):
        encodings = [one.encoding if isinstance(one, FramedWindow) else one for one in pool]
        results = predict_batched(model, encodings, forward, packed=packed)
        for one, result in zip(pool, results, strict=True):
            if isinstance(one, GlassformerError) or isinstance(result, GlassformerError):
                assert isinstance(result, GlassformerError)
                yield result
            else:
                yield WindowResult(one.about, one.before, one.window, result, one.last)


def framed_windows(
    job: WindowedJob[About] | GlassformerError,
) -> Iterator[FramedWindow[About] | GlassformerError]:
    """Yields the windows of a text, or the error in its place."""
    if isinstance(job, GlassformerError):
        yield job
        return
    try:
        for window, last in with_last(job.windows):
            encoding = job.frame.add_frame(window.text)
            yield FramedWindow(job.about, window, encoding, len(job.frame.before), last)
    except GlassformerError as error:
        yield error


def num_tokens(window: FramedWindow[Any] | GlassformerError) -> int:
    return len(window.encoding) if isinstance(window, FramedWindow) else 0


def with_last(windows: Iterator[TextWindow]) -> Iterator[tuple[TextWindow, bool]]:
    """Yields each window and whether it is the last; raises if there is none."""
    window = next(windows, None)
    if window is None:
        raise InputError("The tokenizer finds no tokens in the text.")
    for behind in windows:
        yield window, False
        window = behind
    yield window, True


def length_of(model: TaskModel, max_length: int | None, saved: Mapping[str, Any]) -> int:
    """Returns the number of tokens of a window.

    It is the requested one, or the smaller of the head's training length and the model's maximum.
    """
    limit, trained = longest(model, max_length), saved.get("length")
    if trained is not None and (type(trained) is not int or trained < 1):
        raise ConfigError(f"config.json gives a length of {trained!r}; it must be a whole number.")
    if max_length is not None or limit is None:
        return max_length or trained or USUAL_LENGTH
    return min(limit, trained or limit)
