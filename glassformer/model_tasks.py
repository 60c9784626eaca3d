"""The task methods of `Model`: classify, tag, answer, embed, fill, translate, summarize and
transcribe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any, Unpack, overload

from glassformer.metrics.evaluation import Evaluation
from glassformer.tasks.answer import Answer, AnswererOptions, answer
from glassformer.tasks.classify import Classification, ClassifyOptions, classify
from glassformer.tasks.embed import EmbedderOptions, Vector, embed
from glassformer.tasks.fill import FillerOptions, fill
from glassformer.tasks.fill_types import Filled
from glassformer.tasks.model_protocol import TaskModel
from glassformer.tasks.speech.options import TranscriberOptions
from glassformer.tasks.speech.transcript import Transcript
from glassformer.tasks.summarize import SummarizerOptions, Summary, summarize
from glassformer.tasks.tag import Tagged, TaggerOptions, tag
from glassformer.tasks.transcribe import Recording, transcribe
from glassformer.tasks.translate import Translation, TranslatorOptions, translate
from glassformer.text.backend import Text


class TextTasks(TaskModel):
    """A model with one method per task; each calls the function of that name in `tasks`."""

    @overload
    def classify(self, texts: Text, **options: Unpack[ClassifyOptions]) -> Classification: ...  # type: ignore[overload-overlap]

    @overload
    def classify(
        self, texts: Sequence[Text], **options: Unpack[ClassifyOptions]
    ) -> list[Classification]: ...

    @overload
    def classify(
        self, texts: Iterator[Text], **options: Unpack[ClassifyOptions]
    ) -> Iterator[Classification]: ...

    def classify(
        self, texts: Text | Sequence[Text] | Iterator[Text], **options: Unpack[ClassifyOptions]
    ) -> Classification | list[Classification] | Iterator[Classification]:
        """Classifies texts.

        Args:
            texts: A text, a tuple of two texts, a list of either, or an iterator.
            **options: See `tasks.classify.classify`.

        Returns:
            One result for one text, a list for a list, or an iterator for an iterator.

        >>> model.classify(["A moving film.", "A bore."], threshold=0.7)
        """
        return classify(self, texts, **options)

    def evaluate(self, data: Any, task: str | None = None, **options: Any) -> Evaluation:
        """Evaluates the model on data with known answers.

        Args:
            data: Files, by their paths or patterns, a DataFrame, a Dataset, or dicts.
            task: See `gf.evaluate`; by default the task of the model's head.
            **options: See `gf.evaluate`.

        Returns:
            An `Evaluation`: the metrics with their confidence intervals.

        >>> model.evaluate("test.csv")["accuracy"]
        """
        evaluate = import_module("glassformer.evaluate.evaluate").evaluate  # it imports this module
        found: Evaluation = evaluate(self, data, task, **options)
        return found

    @overload
    def tag(self, texts: str, **options: Unpack[TaggerOptions]) -> Tagged: ...  # type: ignore[overload-overlap]

    @overload
    def tag(
        self, texts: Sequence[str | Sequence[str]], **options: Unpack[TaggerOptions]
    ) -> list[Tagged]: ...

    @overload
    def tag(
        self, texts: Iterator[str | Sequence[str]], **options: Unpack[TaggerOptions]
    ) -> Iterator[Tagged]: ...

    def tag(
        self,
        texts: str | Sequence[str | Sequence[str]] | Iterator[str | Sequence[str]],
        **options: Unpack[TaggerOptions],
    ) -> Tagged | list[Tagged] | Iterator[Tagged]:
        """Tags the words of texts of any length and extracts entities with their positions.

        Args:
            texts: A text, a list of texts or of lists of words, or an iterator.
            **options: See `tasks.tag.tag`.

        Returns:
            One result for one text, a list for a list, or an iterator for an iterator.

        >>> for entity in model.tag("Ada Lovelace was born in London.").entities: print(entity)
        """
        return tag(self, texts, **options)

    @overload
    def answer(  # type: ignore[overload-overlap]
        self, question: str, context: str, **options: Unpack[AnswererOptions]
    ) -> Answer: ...

    @overload
    def answer(
        self,
        question: Iterable[str],
        context: str | Iterable[str],
        **options: Unpack[AnswererOptions],
    ) -> list[Answer] | Iterator[Answer]: ...

    def answer(
        self,
        question: str | Iterable[str],
        context: str | Iterable[str],
        **options: Unpack[AnswererOptions],
    ) -> Answer | list[Answer] | Iterator[Answer]:
        """Extracts the answer to a question from a context of any length.

        Args:
            question: A question, a list of questions, or an iterator.
            context: The context of each question, in the same form, or one for all.
            **options: See `tasks.answer.answer`.

        Returns:
            An `Answer` with its position in the context, a list for lists, an iterator for
            iterators.

        >>> model.answer("Where was she born?", "Ada Lovelace was born in London.").text
        """
        found: Any = answer
        result: Answer | list[Answer] | Iterator[Answer] = found(self, question, context, **options)
        return result

    @overload
    def embed(self, texts: str | Sequence[str], **options: Unpack[EmbedderOptions]) -> Vector: ...

    @overload
    def embed(
        self, texts: Iterator[str], **options: Unpack[EmbedderOptions]
    ) -> Iterator[Vector]: ...

    def embed(
        self, texts: str | Sequence[str] | Iterator[str], **options: Unpack[EmbedderOptions]
    ) -> Vector | Iterator[Vector]:
        """Computes one vector per text.

        Args:
            texts: A text, a list of texts, or an iterator.
            **options: See `tasks.embed.embed`.

        Returns:
            [width] for a text, [text, width] for a list, an iterator of vectors for an iterator.

        >>> a, b = minilm.embed(["A dog barks.", "The hound is loud."], normalize=True); a @ b
        """
        return embed(self, texts, **options)

    @overload
    def fill(self, texts: str, **options: Unpack[FillerOptions]) -> Filled: ...  # type: ignore[overload-overlap]

    @overload
    def fill(self, texts: Sequence[str], **options: Unpack[FillerOptions]) -> list[Filled]: ...

    @overload
    def fill(self, texts: Iterator[str], **options: Unpack[FillerOptions]) -> Iterator[Filled]: ...

    def fill(
        self, texts: str | Sequence[str] | Iterator[str], **options: Unpack[FillerOptions]
    ) -> Filled | list[Filled] | Iterator[Filled]:
        """Predicts what belongs in the gaps of texts.

        Args:
            texts: A text with gaps marked by `___`, a list of texts, or an iterator.
            **options: See `tasks.fill.fill`.

        Returns:
            For each text the candidates of every gap and the best joint fillings.

        >>> bert.fill("Paris is the ___ of France.").gaps[0].candidates[0].text
        """
        return fill(self, texts, **options)

    @overload
    def translate(self, texts: str, **options: Unpack[TranslatorOptions]) -> Translation: ...  # type: ignore[overload-overlap]

    @overload
    def translate(
        self, texts: Sequence[str], **options: Unpack[TranslatorOptions]
    ) -> list[Translation]: ...

    @overload
    def translate(
        self, texts: Iterator[str], **options: Unpack[TranslatorOptions]
    ) -> Iterator[Translation]: ...

    def translate(
        self, texts: str | Sequence[str] | Iterator[str], **options: Unpack[TranslatorOptions]
    ) -> Translation | list[Translation] | Iterator[Translation]:
        """Translates texts. Long texts are translated in parts and keep their paragraphs.

        Args:
            texts: A text, a list of texts, or an iterator.
            **options: `source_language` and `target_language` for a multilingual model; see
                `tasks.translate.translate`.

        Returns:
            One translation for one text, a list for a list, or an iterator for an iterator.

        >>> m2m.translate("Guten Morgen.", source_language="de", target_language="en").text
        """
        return translate(self, texts, **options)

    @overload
    def summarize(self, texts: str, **options: Unpack[SummarizerOptions]) -> Summary: ...  # type: ignore[overload-overlap]

    @overload
    def summarize(
        self, texts: Sequence[str], **options: Unpack[SummarizerOptions]
    ) -> list[Summary]: ...

    @overload
    def summarize(
        self, texts: Iterator[str], **options: Unpack[SummarizerOptions]
    ) -> Iterator[Summary]: ...

    def summarize(
        self, texts: str | Sequence[str] | Iterator[str], **options: Unpack[SummarizerOptions]
    ) -> Summary | list[Summary] | Iterator[Summary]:
        """Summarizes texts.

        Args:
            texts: A text, a list of texts, or an iterator.
            **options: See `tasks.summarize.summarize`.

        Returns:
            One summary for one text, a list for a list, or an iterator for an iterator.

        >>> bart.summarize(article, max_new_tokens=60).text
        """
        return summarize(self, texts, **options)

    def transcribe(
        self,
        sound: Recording,
        rate: int | None = None,
        **options: Unpack[TranscriberOptions],
    ) -> Transcript:
        """Transcribes a recording of any length.

        Args:
            sound: The path of a file, "-" for standard input, or samples as an array.
            rate: The samples per second of an array.
            **options: `language`, `word_timestamps`, `beam_size`; see
                `tasks.speech.options.TranscribeOptions`.

        Returns:
            The transcript with its segments, and their words if `word_timestamps` is set.

        >>> whisper.transcribe("talk.wav").text
        """
        return transcribe(self, sound, rate, **options)
