"""Summarizes texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal

from glassformer.errors import ConfigError, GlassformerError
from glassformer.generate import GenerationOutput
from glassformer.tasks.batching import Pause
from glassformer.tasks.model_protocol import TaskModel, apply_to
from glassformer.tasks.rewrite import Finish, Ids, Rewriter
from glassformer.tasks.segmenting import parts_of

Long = Literal["cut", "split"]
NEW_TOKENS = 128  # the default maximum of a summary
LONG = ("cut", "split")


@dataclass(frozen=True)
class Summary:
    """A summary; `unread` is the number of tokens of the text that were cut off.

    `parts` is the number of parts that were summarized separately first.
    """

    text: str
    score: float | None
    stop: str
    unread: int = 0
    parts: int = 1

    def __str__(self) -> str:
        return self.text

    def record(self) -> dict[str, Any]:
        return {"summary": self.text, **{k: v for k, v in asdict(self).items() if k != "text"}}


class Summarizer:
    """Summarizes texts with a model and generation options; see `Model.summarize`."""

    def __init__(
        self,
        model: TaskModel,
        *,
        long: Long = "cut",
        max_source_length: int | None = None,
        source_prefix: str | None = None,
        separator: str | None = None,
        **knobs: Any,
    ) -> None:
        if long not in LONG:
            raise ConfigError(f"long is one of {', '.join(LONG)}, not {long!r}.")
        self.long = long
        self.rewriter = Rewriter(
            model,
            "summarize",
            "summarization",
            knobs,
            source_prefix=source_prefix,
            separator=separator,
            max_source_length=max_source_length,
            new_tokens=NEW_TOKENS,
        )

    def stream(self, texts: Iterable[str | Pause]) -> Iterator[Summary | GlassformerError]:
        """Yields summaries in the order of the texts; an error takes the place of its text."""
        return self.rewriter.each(texts, self._prepared)

    def _prepared(self, text: str) -> tuple[list[Ids], Finish[Summary]]:
        text, parts = self.rewriter.checked(text), 1
        if self.long == "split":
            text, parts = self._folded(text)
        ids, length = self.rewriter.ids(text), self.rewriter.measure(text)
        if length > self.rewriter.room:
            ids = self.rewriter.cut(text)
        return [ids], partial(_summary, unread=length - len(ids), parts=parts)

    def _folded(self, text: str) -> tuple[str, int]:
        """Summarizes the parts of a text that is too long, and theirs again until it fits.

        Returns the text to summarize and the number of parts.
        """
        rewriter, first = self.rewriter, 1
        while (length := rewriter.measure(text)) > rewriter.room:
            spans = parts_of(text, rewriter.measure, rewriter.room, "text")
            first = first if first > 1 else len(spans)
            sources = (rewriter.ids(text[slice(*span)]) for span in spans)
            shorter = "\n".join(one.text.strip() for one in rewriter.written(sources))
            if not shorter.strip() or rewriter.measure(shorter) >= length:
                break  # the summaries are not shorter: the text is truncated
            text = shorter
        return text, first


def summarize(model: TaskModel, texts: Any, **options: Any) -> Any:
    """Summarizes a text, a list or an iterator of texts; see `Model.summarize`."""
    return apply_to(texts, Summarizer(model, **options).stream)


def _summary(written: list[GenerationOutput], *, unread: int, parts: int) -> Summary:
    (one,) = written
    return Summary(one.text.strip(), one.score, one.stop, unread, parts)
