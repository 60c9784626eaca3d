"""Training, evaluation and files of word vectors (word2vec, GloVe)."""

from glassformer.word_vectors.corpus import Corpus, read_corpus
from glassformer.word_vectors.evaluate import Likeness, Section, analogies, similarities
from glassformer.word_vectors.files import check_target, read_vectors, write_vectors
from glassformer.word_vectors.glove import GloVe, cooccurrences, learn_glove
from glassformer.word_vectors.space import Vectors
from glassformer.word_vectors.start import start_embedding
from glassformer.word_vectors.word2vec import Word2Vec, learn_word2vec

__all__ = [
    "Corpus",
    "GloVe",
    "Likeness",
    "Section",
    "Vectors",
    "Word2Vec",
    "analogies",
    "check_target",
    "cooccurrences",
    "learn_glove",
    "learn_word2vec",
    "read_corpus",
    "read_vectors",
    "similarities",
    "start_embedding",
    "write_vectors",
]
