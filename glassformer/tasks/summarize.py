"""Summarizes texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal, Unpack, overload

from glassformer.errors import ConfigError, GlassformerError
from glassformer.generate import GenerationOutput
from glassformer.generate.options import GenerationOptions
from glassformer.tasks.batching import apply_to
from glassformer.tasks.heads import rewrites
from glassformer.tasks.model_protocol import TaskModel
from glassformer.tasks.registry import TrainingData, task
from glassformer.tasks.rewrite import Finish, Ids, Rewriter
from glassformer.tasks.segmenting import parts_of
from glassformer.tasks.task_cache import cached_task

Long = Literal["cut", "split"]
NEW_TOKENS = 128  # the default maximum of a summary
LONG = ("cut", "split")


@dataclass(frozen=True)
class Summary:
    """A summary; `unread` is the number of tokens of the text that were cut off.

    `parts` is the number of parts that were summarized separately first, and `unknown_ratio` the
    share of the text that the vocabulary does not know.
    """

    text: str
    score: float | None
    finish_reason: str
    unread: int = 0
    parts: int = 1
    unknown_ratio: float = 0.0

    def __str__(self) -> str:
        return self.text

    def record(self) -> dict[str, Any]:
        return {"summary": self.text, **{k: v for k, v in asdict(self).items() if k != "text"}}


@task(
    "summarize",
    head="lm",
    objective="sequence-to-sequence or continuation",
    fits=rewrites,
    training=TrainingData(
        columns={
            "source": ("text", "article", "document", "dialogue", "body", "content", "input"),
            "target": ("summary", "highlights", "abstract", "headline", "title", "subject"),
        },
        metric="perplexity",
        evaluation="summarization",
        format="parallel",
    ),
)
class Summarizer:
    """Summarizes texts with a model and generation options; see `summarize`."""

    def __init__(
        self,
        model: TaskModel,
        *,
        long: Long = "cut",
        max_source_length: int | None = None,
        source_prefix: str | None = None,
        separator: str | None = None,
        **generation: Any,
    ) -> None:
        if long not in LONG:
            raise ConfigError(f"long is one of {', '.join(LONG)}, not {long!r}.")
        self.long = long
        self.rewriter = Rewriter(
            model,
            "summarize",
            "summarization",
            generation,
            source_prefix=source_prefix,
            separator=separator,
            max_source_length=max_source_length,
            new_tokens=NEW_TOKENS,
        )

    def __call__(self, texts: Iterable[str]) -> Iterator[Summary | GlassformerError]:
        """Yields summaries in the order of the texts; an error takes the place of its text."""
        return self.rewriter.each(texts, self._prepared)

    def _prepared(self, text: str) -> tuple[list[Ids], Finish[Summary]]:
        text, parts = self.rewriter.checked(text), 1
        unknown = self.rewriter.unknown_ratio(text)
        if self.long == "split":
            text, parts = self._folded(text)
        ids, length = self.rewriter.ids(text), self.rewriter.measure(text)
        if length > self.rewriter.capacity:
            ids = self.rewriter.cut(text)
        unread = length - len(ids)
        return [ids], partial(_summary, unread=unread, parts=parts, unknown_ratio=unknown)

    def _folded(self, text: str) -> tuple[str, int]:
        """Summarizes the parts of a text that is too long, and theirs again until it fits.

        Returns the text to summarize and the number of parts.
        """
        rewriter, first = self.rewriter, 1
        while (length := rewriter.measure(text)) > rewriter.capacity:
            spans = parts_of(text, rewriter.measure, rewriter.capacity, "text")
            first = first if first > 1 else len(spans)
            sources = (rewriter.ids(text[slice(*span)]) for span in spans)
            shorter = "\n".join(one.text.strip() for one in rewriter.generate_texts(sources))
            if not shorter.strip() or rewriter.measure(shorter) >= length:
                break  # the summaries are not shorter: the text is truncated
            text = shorter
        return text, first


class SummarizerOptions(GenerationOptions, total=False):
    """The keyword arguments of `summarize`."""

    long: Long
    max_source_length: int | None
    source_prefix: str | None
    separator: str | None


@overload
def summarize(  # type: ignore[overload-overlap]
    model: TaskModel, texts: str, **options: Unpack[SummarizerOptions]
) -> Summary: ...


@overload
def summarize(
    model: TaskModel, texts: Sequence[str], **options: Unpack[SummarizerOptions]
) -> list[Summary]: ...


@overload
def summarize(
    model: TaskModel, texts: Iterator[str], **options: Unpack[SummarizerOptions]
) -> Iterator[Summary]: ...


def summarize(
    model: TaskModel,
    texts: str | Sequence[str] | Iterator[str],
    *,
    long: Long = "cut",
    max_source_length: int | None = None,
    source_prefix: str | None = None,
    separator: str | None = None,
    **generation: Any,
) -> Summary | list[Summary] | Iterator[Summary]:
    """Summarizes texts.

    Args:
        model: An encoder-decoder, or a decoder-only model trained to summarize.
        texts: A text, or a list or iterator of texts.
        long: What happens to a text that exceeds the model's context: "cut" drops the rest;
            "split" summarizes its parts and then the joined summaries.
        max_source_length: The maximum number of tokens of a text or part.
        source_prefix: The text before each source; the default is that of config.json.
        separator: What separates source and target in a decoder-only model; the default is that
            of config.json.
        **generation: Generation options.

    Returns:
        A `Summary`, a list for a list, an iterator for an iterator.

    >>> bart.summarize(article, max_new_tokens=60).text
    """
    summarizer = cached_task(
        model,
        Summarizer,
        long=long,
        max_source_length=max_source_length,
        source_prefix=source_prefix,
        separator=separator,
        **generation,
    )
    results: Summary | list[Summary] | Iterator[Summary] = apply_to(model, texts, summarizer)
    return results


def _summary(
    written: list[GenerationOutput], *, unread: int, parts: int, unknown_ratio: float
) -> Summary:
    (one,) = written
    return Summary(one.text.strip(), one.score, one.finish_reason, unread, parts, unknown_ratio)
