"""BLEU and chrF (by sacrebleu) and ROUGE of generated texts with one or more references each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from glassformer.errors import ConfigError, InputError, UnsupportedError
from glassformer.metrics.registry import declare_metric
from glassformer.metrics.rouge import all_words, plain_words, rouge_means, stemmed_words

declare_metric("bleu", "Corpus BLEU by sacrebleu.")
declare_metric("chrf", "Corpus chrF by sacrebleu.")
References = Sequence[Sequence[str]]  # the references of every text
CHINESE = re.compile(r"[\u3400-\u9fff\uf900-\ufaff]")
JAPANESE = re.compile(r"[\u3040-\u30ff]")


class SignedMetric(NamedTuple):
    """The value of a metric and a signature of exactly how it was computed."""

    name: str
    value: float
    signature: str


def translation_scores(
    predictions: Sequence[str],
    references: References,
    *,
    tokenize: str | None = None,
    lowercase: bool = False,
) -> list[SignedMetric]:
    """Computes BLEU and chrF of a corpus.

    Args:
        predictions: The generated texts.
        references: The references of each text.
        tokenize: sacrebleu's name of BLEU's tokenization. The default is 13a, or for references in
            Chinese or Japanese one that does not need spaces.
        lowercase: Whether to ignore case.
    """
    check(predictions, references)
    found = translation_metrics(references, tokenize=tokenize, lowercase=lowercase)
    streams = streams_of(references)
    scores = [metric.corpus_score(list(predictions), streams) for metric in found]
    return [
        SignedMetric(score.name, score.score, str(metric.get_signature()))
        for metric, score in zip(found, scores, strict=True)
    ]


def streams_of(references: References) -> list[list[str | None]]:
    """Transposes references as sacrebleu expects: the first of all texts, the second, and so on.

    A missing reference is None.
    """
    return [list(stream) for stream in zip_longest(*references)]


def translation_metrics(
    references: References, *, tokenize: str | None = None, lowercase: bool = False
) -> list[Any]:
    """Returns sacrebleu's BLEU and chrF objects, configured for these references."""
    metrics = _sacrebleu()
    chosen = tokenize or _words_of(references)
    try:
        return [
            metrics.BLEU(lowercase=lowercase, tokenize=chosen),
            metrics.CHRF(lowercase=lowercase),
        ]
    except (ValueError, RuntimeError, ImportError) as error:
        why = " ".join(str(error).split())
        raise ConfigError(
            f"sacrebleu cannot split words by {chosen!r} ({why}); choose another tokenization, "
            "such as char."
        ) from None


def summary_scores(
    predictions: Sequence[str], references: References, *, stemmer: bool = True
) -> list[SignedMetric]:
    """Computes the mean F1 of ROUGE-1, 2, L and Lsum, times 100.

    If the references have no Latin letters, words of any script are counted.

    Args:
        predictions: The generated summaries.
        references: The references of each summary.
        stemmer: Whether to compare Porter stems, as papers do.
    """
    check(predictions, references)
    latin = any(plain_words(one) for several in references for one in several)
    words = all_words if not latin else stemmed_words if stemmer else plain_words
    how = {
        all_words: "words of any script, characters of Chinese and Japanese",
        stemmed_words: "as rouge-score, use_stemmer=True",
        plain_words: "as rouge-score, use_stemmer=False",
    }[words]
    means = rouge_means(predictions, references, words=words)
    return [
        SignedMetric(kind.replace("rouge", "ROUGE-"), 100 * value, how)
        for kind, value in means.items()
    ]


def check(predictions: Sequence[str], references: References) -> None:
    if len(predictions) != len(references):
        raise InputError(
            f"There are {len(predictions):,} texts and {len(references):,} references; give one "
            "for each."
        )
    if not predictions:
        raise InputError("There are no texts to compare with references.")
    for number, several in enumerate(references, 1):
        if isinstance(several, str) or not several:
            raise InputError(f"Text {number} has no list of references.")


def _words_of(references: References) -> str:
    text = "".join(one for several in references[:1000] for one in several)
    if len(JAPANESE.findall(text)) * 10 > len(text):
        return "ja-mecab"
    return "zh" if len(CHINESE.findall(text)) * 2 > len(text) else "13a"


def check_sacrebleu() -> None:
    """Raises if sacrebleu is missing; call it before generating texts that need it for scoring."""
    _sacrebleu()


def _sacrebleu() -> Any:
    try:
        from sacrebleu import metrics
    except ImportError:
        raise UnsupportedError(
            "BLEU and chrF need sacrebleu: pip install 'glassformer[tasks]'."
        ) from None
    return metrics
