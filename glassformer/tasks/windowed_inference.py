"""Inference over long texts in windows, with results in order.

At most one pool of windows is held at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from torch import Tensor

from glassformer.errors import GlassformerError, InputError
from glassformer.tasks.batching import Pause, predict_batched
from glassformer.tasks.model_protocol import TaskModel, longest
from glassformer.tasks.windows import TextWindow, WindowFrame
from glassformer.text import TextEncoding

About = TypeVar("About")
Result = TypeVar("Result")
USUAL_LENGTH = 512  # for models without a maximum length


@dataclass(frozen=True)
class WindowedJob(Generic[About]):
    """A text to read: its windows, and data (`about`) that is returned with the results."""

    about: About
    frame: WindowFrame
    windows: Iterator[TextWindow]


@dataclass(frozen=True)
class WindowResult(Generic[About, Result]):
    """The result of a window, whose tokens begin after the first `before` of the result."""

    about: About
    before: int
    window: TextWindow
    result: Result
    last: bool  # of its text


def read_long(
    model: TaskModel,
    jobs: Iterable[WindowedJob[About] | GlassformerError | Pause],
    forward: Callable[[dict[str, Tensor], list[TextEncoding]], Sequence[Result]],
    *,
    flat: bool = False,
) -> Iterator[WindowResult[About, Result] | GlassformerError]:
    """Runs a model on the windows of texts.

    An error ends its text, of which windows may have been yielded before. `flat` is that of
    `predict_batched`.
    """
    waiting: deque[tuple[WindowedJob[About], TextWindow, bool] | None] = deque()

    def framed() -> Iterator[TextEncoding | GlassformerError | Pause]:
        for job in jobs:
            if isinstance(job, Pause):
                yield job
                continue
            try:
                if isinstance(job, GlassformerError):
                    raise job
                for window, last in with_last(job.windows):
                    waiting.append((job, window, last))
                    yield job.frame.around(window.text)
            except GlassformerError as error:
                waiting.append(None)
                yield error

    for result in predict_batched(model, framed(), forward, flat=flat):
        asked = waiting.popleft()
        if isinstance(result, GlassformerError):
            yield result
        else:
            assert asked is not None
            job, window, last = asked
            yield WindowResult(job.about, len(job.frame.before), window, result, last)


def with_last(windows: Iterator[TextWindow]) -> Iterator[tuple[TextWindow, bool]]:
    """Yields each window and whether it is the last; raises if there is none."""
    window = next(windows, None)
    if window is None:
        raise InputError("The tokenizer makes nothing of the text.")
    for behind in windows:
        yield window, False
        window = behind
    yield window, True


def length_of(model: TaskModel, asked: int | None, saved: Mapping[str, Any]) -> int:
    """Returns the number of tokens of a window.

    It is the requested one, or the smaller of the head's training length and the model's maximum.
    """
    most = longest(model, asked)
    if asked is not None or most is None:
        return asked or saved.get("length") or USUAL_LENGTH
    return min(most, saved.get("length") or most)
