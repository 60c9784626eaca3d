"""word2vec: skip-gram and CBOW."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import byref
from dataclasses import dataclass

import numpy as np
import torch

from glassformer.errors import ConfigError
from glassformer.word_vectors.corpus import Corpus, Watch
from glassformer.word_vectors.kernel import KernelWords, kernel, padded
from glassformer.word_vectors.space import Vectors
from glassformer.word_vectors.steps import Tables, full_softmax, negative_sampling
from glassformer.word_vectors.thread_pool import process_chunks
from glassformer.word_vectors.windows import Lottery, key_of, windows

CHUNK = 10_000  # words per chunk of work; the learning rate decreases from chunk to chunk
BATCH = 32  # windows per step without the compiled kernel


@dataclass(frozen=True, kw_only=True)
class Word2Vec:
    """Training settings. The defaults are those of word2vec and gensim."""

    type: str = "skip-gram"  # or "cbow"
    vector_size: int = 100
    window: int = 5  # maximum window size; each word draws its own from 1 to this
    negative: int = 5  # negative samples per word; 0: full softmax over all words
    epochs: int = 5
    sample: float = 1e-3  # words with a higher relative frequency are subsampled; 0: none
    learning_rate: float = 0.025  # decreases linearly to `min_lr`
    min_lr: float = 1e-4
    seed: int = 1
    num_workers: int = 1  # with one, the same seed gives bitwise identical vectors
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.type not in ("skip-gram", "cbow"):
            raise ConfigError(f"type is skip-gram or cbow, not {self.type!r}.")
        least = {"vector_size": 1, "window": 1, "negative": 0, "epochs": 1, "sample": 0}
        check(self, **least, learning_rate=0, num_workers=1, seed=0)


def check(settings: object, **least: float) -> None:
    """Raises an error if a setting is below its minimum."""
    for name, limit in least.items():
        if getattr(settings, name) < limit:
            given = getattr(settings, name)
            raise ConfigError(f"{name} must be {limit} or more, not {given}.")


def learn_word2vec(
    corpus: Corpus, settings: Word2Vec, watch: Watch = lambda _: None, batch: int | None = None
) -> Vectors:
    """Trains word2vec vectors.

    Args:
        corpus: The training text.
        settings: Training settings.
        watch: Called with the number of words done, over all epochs.
        batch: Windows per step, computed by torch; None uses the compiled kernel if possible, one
            window after another.

    Returns:
        The vectors.
    """
    fast = None if batch or not settings.negative or settings.device != "cpu" else kernel()
    tables = initialize_tables(corpus, settings)
    if fast is None:
        do = TorchRun(corpus, settings, tables, batch or BATCH).piece
    else:
        do = KernelRun(corpus, settings, tables, fast.train).piece
    pieces = [(e, c) for e in range(settings.epochs) for c in corpus.chunks(CHUNK)]
    process_chunks(pieces, do, settings.num_workers if fast else 1, watch)
    return Vectors(corpus.words, tables.inputs[:, : settings.vector_size].cpu().numpy())


def initialize_tables(corpus: Corpus, settings: Word2Vec) -> Tables:
    """Returns initial tables: random inputs and zero outputs."""
    shape = (len(corpus.words), padded(settings.vector_size))
    inputs = np.zeros(shape, np.float32)
    rng = np.random.default_rng(settings.seed)
    drawn = rng.random((shape[0], settings.vector_size), np.float32)
    inputs[:, : settings.vector_size] = (drawn * 2 - 1) / settings.vector_size
    table = torch.from_numpy(inputs).to(settings.device)
    return Tables(table, torch.zeros_like(table))


Piece = tuple[int, tuple[int, int]]  # epoch, sentences


class Word2VecRun:
    """Data and learning rate schedule of a training run."""

    def __init__(self, corpus: Corpus, settings: Word2Vec, tables: Tables) -> None:
        self.corpus, self.settings, self.tables = corpus, settings, tables
        self.keep, self.lottery = corpus.keep(settings.sample), Lottery.of(corpus.counts)
        self.key = key_of(settings.seed)

    def rate(self, epoch: int, sentence: int) -> float:
        words = len(self.corpus.ids)
        done = (epoch * words + int(self.corpus.bounds[sentence])) / (self.settings.epochs * words)
        return (
            self.settings.learning_rate
            - (self.settings.learning_rate - self.settings.min_lr) * done
        )

    def size(self, sentences: tuple[int, int]) -> int:
        return int(self.corpus.bounds[sentences[1]] - self.corpus.bounds[sentences[0]])


class KernelRun(Word2VecRun):
    """Training with the compiled kernel."""

    def __init__(
        self, corpus: Corpus, settings: Word2Vec, tables: Tables, train: Callable[..., None]
    ) -> None:
        super().__init__(corpus, settings, tables)
        self.train = train
        self.words = KernelWords(
            ids=corpus.ids.ctypes.data,
            bounds=corpus.bounds.ctypes.data,
            keep=self.keep.ctypes.data,
            threshold=self.lottery.threshold.ctypes.data,
            alias=self.lottery.alias.ctypes.data,
            inputs=tables.inputs.data_ptr(),
            outputs=tables.outputs.data_ptr(),
            key=self.key,
            words=len(corpus.words),
            width=tables.inputs.shape[1],
            window=settings.window,
            negative=settings.negative,
            mean=settings.type == "cbow",
        )

    def piece(self, piece: Piece) -> int:
        epoch, sentences = piece
        number = epoch * len(self.corpus.ids) * (2 + self.settings.negative)
        self.train(byref(self.words), *sentences, number, self.rate(epoch, sentences[0]))
        return self.size(sentences)


class TorchRun(Word2VecRun):
    """Training with torch, in batches of windows."""

    def __init__(self, corpus: Corpus, settings: Word2Vec, tables: Tables, batch: int) -> None:
        super().__init__(corpus, settings, tables)
        self.batch = batch

    def piece(self, piece: Piece) -> int:
        epoch, sentences = piece
        settings, rate = self.settings, self.rate(epoch, sentences[0])
        found = windows(
            self.corpus,
            self.keep,
            self.lottery,
            self.key,
            epoch=epoch,
            sentences=sentences,
            window=settings.window,
            negative=settings.negative,
        )
        whole = (found.center, found.context, found.negative)
        center, context, negative = (torch.from_numpy(a).to(settings.device) for a in whole)
        mean = settings.type == "cbow"
        for begin in range(0, len(center), self.batch):
            part = slice(begin, begin + self.batch)
            if settings.negative:
                negative_sampling(
                    self.tables, center[part], context[part], negative[part], rate, mean
                )
            else:
                full_softmax(self.tables, center[part], context[part], rate, mean)
        return self.size(sentences)
