"""Prompts of the benchmarks.

Each function reads the published records of its benchmark, and prepared ones with a complete
prompt: `query`, `choices`, `gold`; `context_options`, `continuation`, `gold`; or `context`,
`continuation`. The wording of the prompts is that of lm-evaluation-harness.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glassformer.errors import DataError

Record = Mapping[str, Any]
DELIMITER = " "  # between question and answer


@dataclass(frozen=True)
class BenchmarkQuestion:
    """Question answered by comparing the log-probabilities of continuations.

    Attributes:
        contexts: Context of each choice.
        continuations: Scored text of each choice.
        choices: The answers whose length normalizes the score.
        gold: Index of the correct choice.
        shown: The whole question with its correct answer, as a few-shot example.
    """

    contexts: tuple[str, ...]
    continuations: tuple[str, ...]
    choices: tuple[str, ...]
    gold: int
    shown: str

    @classmethod
    def of_choices(cls, context: str, choices: Sequence[str], gold: int) -> BenchmarkQuestion:
        """Makes a question of one context with several continuations."""
        number = within(gold, choices)
        return cls(
            contexts=(context,) * len(choices),
            continuations=tuple(DELIMITER + choice for choice in choices),
            choices=tuple(choices),
            gold=number,
            shown=context + DELIMITER + choices[number],
        )

    @classmethod
    def of_contexts(cls, contexts: Sequence[str], end: str, gold: int) -> BenchmarkQuestion:
        """Makes a question of several contexts with the same continuation; only that is scored."""
        number = within(gold, contexts)
        return cls(
            contexts=tuple(contexts),
            continuations=(DELIMITER + end,) * len(contexts),
            choices=tuple(contexts),
            gold=number,
            shown=contexts[number] + DELIMITER + end,
        )

    @classmethod
    def of_word(cls, context: str, word: str) -> BenchmarkQuestion:
        """Makes a question without choices: whether the model predicts this word."""
        target = " " + word
        return cls((context,), (target,), (target,), 0, context + DELIMITER + target)


def lambada(record: Record) -> BenchmarkQuestion:
    if "continuation" in record:
        context, word = text_of(record, "context"), text_of(record, "continuation")
        return BenchmarkQuestion.of_word(context, word.removeprefix(" "))
    before, _, word = text_of(record, "text").rpartition(" ")
    if not before:
        raise DataError("a passage has a word to guess and others before it")
    return BenchmarkQuestion.of_word(before, word)


def hellaswag(record: Record) -> BenchmarkQuestion:
    if "endings" not in record:
        return prepared(record)
    context = f"{text_of(record, 'ctx_a')} {str(record.get('ctx_b', '')).capitalize()}"
    question = cleaned(f"{text_of(record, 'activity_label')}: {context}")
    endings = [cleaned(ending) for ending in texts_of(record, "endings")]
    return BenchmarkQuestion.of_choices(question, endings, number_of(record, "label"))


def cleaned(text: str) -> str:
    """Removes the bracketed markup of WikiHow pages."""
    text = re.sub(r"\[.*?\]", "", text.strip().replace(" [title]", ". "))
    return text.replace("  ", " ")


def piqa(record: Record) -> BenchmarkQuestion:
    if "goal" not in record:
        return prepared(record, after="\nAnswer:")
    choices = [text_of(record, "sol1"), text_of(record, "sol2")]
    question = f"Question: {text_of(record, 'goal')}\nAnswer:"
    return BenchmarkQuestion.of_choices(question, choices, number_of(record, "label"))


def arc(record: Record) -> BenchmarkQuestion:
    if "answerKey" not in record:
        return prepared(record, after="\nAnswer:")
    question, choices, gold = keyed(record, "question")
    return BenchmarkQuestion.of_choices(f"Question: {question}\nAnswer:", choices, gold)


def openbookqa(record: Record) -> BenchmarkQuestion:
    return (
        BenchmarkQuestion.of_choices(*keyed(record, "question_stem"))
        if "answerKey" in record
        else prepared(record)
    )


def keyed(record: Record, name: str) -> tuple[str, list[str], int]:
    """Returns the question, the choices and the correct index of a record by AllenAI.

    The record is either as published by the authors, with the question as an object with a stem, or
    in columns.
    """
    inner = record.get("question")
    if isinstance(inner, Mapping):
        question, given = text_of(inner, "stem"), inner.get("choices")
    else:
        question, given = text_of(record, name), record.get("choices")
    try:
        if not isinstance(given, Mapping):
            given = {key: [one[key] for one in given or ()] for key in ("label", "text")}
        return (
            question,
            list(given["text"]),
            list(given["label"]).index(record["answerKey"].strip()),
        )
    except (LookupError, TypeError, ValueError, AttributeError):
        raise DataError(
            "choices with label and text are wanted, and an answerKey that is one of the labels"
        ) from None


def boolq(record: Record) -> BenchmarkQuestion:
    if "passage" not in record:
        given = prepared(record, before="Passage: ", after="\nAnswer:")
        return BenchmarkQuestion.of_choices(given.contexts[0], given.choices, given.gold)
    passage, question = text_of(record, "passage"), text_of(record, "question")
    label = record["label"] if "label" in record else record.get("answer")
    context = f"{passage}\nQuestion: {question}?\nAnswer:"
    return BenchmarkQuestion.of_choices(context, ["no", "yes"], int(label is True or label == 1))


def copa(record: Record) -> BenchmarkQuestion:
    """Reads a COPA record. Two spaces precede a choice, as in the harness."""
    if "premise" not in record:
        question = prepared(record)
        choices = [" " + choice.lstrip() for choice in question.choices]
        return BenchmarkQuestion.of_choices(question.contexts[0], choices, question.gold)
    joint = {"cause": "because", "effect": "therefore"}.get(record.get("question", ""))
    if joint is None:
        raise DataError('question must be "cause" or "effect"')
    choices = [text_of(record, name) for name in ("choice1", "choice2")]
    context = f"{text_of(record, 'premise').strip()[:-1]} {joint}"
    lowered = [f" {choice[0].lower()}{choice[1:]}" for choice in choices]
    return BenchmarkQuestion.of_choices(context, lowered, number_of(record, "label"))


def winogrande(record: Record) -> BenchmarkQuestion:
    if "sentence" not in record:
        return prepared(record)
    before, gap, after = text_of(record, "sentence").partition("_")
    if not gap:
        raise DataError("the sentence has no _ where an option belongs")
    contexts = [before + text_of(record, name) for name in ("option1", "option2")]
    return BenchmarkQuestion.of_contexts(contexts, after.strip(), number_of(record, "answer") - 1)


def prepared(record: Record, before: str = "", after: str = "") -> BenchmarkQuestion:
    """Makes a question of a record with a complete prompt, except for the words around it."""
    if "context_options" in record:
        contexts, end = texts_of(record, "context_options"), text_of(record, "continuation")
        return BenchmarkQuestion.of_contexts(
            contexts, end.removeprefix(" "), number_of(record, "gold")
        )
    question = text_of(record, "query").removeprefix(before)
    question = question.rstrip("\n") + after if after else question
    return BenchmarkQuestion.of_choices(
        question, texts_of(record, "choices"), number_of(record, "gold")
    )


# --- helpers -----------------------------------------------------------------------------------


def text_of(record: Record, name: str) -> str:
    value = record.get(name)
    if not isinstance(value, str) or not value:
        raise missing(record, name, "a text")
    return value


def texts_of(record: Record, name: str) -> list[str]:
    value = record.get(name)
    if (
        not isinstance(value, list)
        or len(value) < 2
        or not all(isinstance(text, str) and text for text in value)
    ):
        raise missing(record, name, "a list of two or more texts")
    return value


def number_of(record: Record, name: str) -> int:
    value = str(record.get(name))
    if not value.isdecimal():
        raise missing(record, name, "the number of the right choice")
    return int(value)


def within(number: int, choices: Sequence[str]) -> int:
    if not 0 <= number < len(choices):
        raise DataError(f"there is no choice {number} of {len(choices)}, from 0")
    return number


def missing(record: Record, name: str, wanted: str) -> DataError:
    there = ", ".join(key for key in record if key != "where")
    if name in record:
        return DataError(f"{name} must be {wanted}, not {str(record[name])[:40]!r}")
    return DataError(f"there is no {name}, {wanted}, only {there}")
