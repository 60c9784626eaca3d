"""Long texts through a net, window by window. Texts in windows come in; what the net
says of each window goes out, in their order. No more than a pool of windows is held."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from torch import Tensor

from glassformer.errors import GlassformerError
from glassformer.tasks.batching import Pause, predict_batched
from glassformer.tasks.model_protocol import TaskModel, longest
from glassformer.tasks.windows import TextWindow, WindowFrame
from glassformer.text import TextEncoding

About = TypeVar("About")
Result = TypeVar("Result")
USUAL_LENGTH = 512  # of models without a longest


@dataclass(frozen=True)
class WindowedJob(Generic[About]):
    """A text to be read: what its reader wants to know of it again, and its windows."""

    about: About
    frame: WindowFrame
    windows: Iterator[TextWindow]


@dataclass(frozen=True)
class WindowResult(Generic[About, Result]):
    """What was found in a window. Its tokens begin behind the first `before` of the result's."""

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
    """An error ends its text, of which there may have been windows before. `flat`: as `run_texts`
    has it."""
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
    """Whether there is none behind it; of one there must be."""
    window = next(windows, None)
    if window is None:
        raise GlassformerError("The tokenizer makes nothing of the text.")
    for behind in windows:
        yield window, False
        window = behind
    yield window, True


def length_of(model: TaskModel, asked: int | None, saved: Mapping[str, Any]) -> int:
    """Of a window, in tokens: as was asked for, as the head was trained, as the model reads."""
    most = longest(model, asked)
    if asked is not None or most is None:
        return asked or saved.get("length") or USUAL_LENGTH
    return min(most, saved.get("length") or most)
