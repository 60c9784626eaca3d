"""Evaluate room: how well a language model foresees texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from glassformer.errors import GlassformerError
from glassformer.evaluate.judge import Judge, field
from glassformer.evaluate.lm.judge import perplexities, require_language_model
from glassformer.generate import Score
from glassformer.metrics.bootstrap import Draws, Figure, bootstrap_sums
from glassformer.model import Model
from glassformer.train.objectives.objective import Record

BLOCK = 512  # tokens


class TextJudge(Judge[str, Score]):
    """The column `text`, or a file of plain text as a whole, read in windows as by `score`. All
    tokens count for the perplexity but the first of a text, which is given."""

    form = "text"

    def __init__(self, model: Model) -> None:
        require_language_model(model)
        self.model = model

    def ask(self, record: Record) -> str:
        text = field(record, "text")
        if not isinstance(text, str) or not text.strip():
            raise GlassformerError("the text is empty")
        return text

    def answers(self, asked: Iterable[str]) -> Iterator[Score | GlassformerError]:
        for text in asked:
            try:
                yield self.model.score(text)
            except GlassformerError as error:
                yield error

    def figures(
        self, asked: Sequence[str], answers: Sequence[Score], draws: Draws
    ) -> dict[str, Figure]:
        """Draws are of blocks of tokens, since a long text is one record."""
        blocks = [
            score.logprobs[start : start + BLOCK]
            for score in answers
            for start in range(0, len(score.logprobs), BLOCK)
        ]
        sums = [(sum(block), len(block)) for block in blocks]
        return bootstrap_sums(sums, {"perplexity": perplexities}, draws)
