from __future__ import annotations

import numpy as np
import pytest

from glassformer.word_vectors import read_corpus

ANIMALS, PLACES = ("cat", "dog", "cow"), ("paris", "rome", "oslo")


@pytest.fixture
def story(tmp_path):
    """Animals and places stand among words of their own; some words are in all sentences."""
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(400):
        subjects, others = ((ANIMALS, "eats sleeps runs barn"), (PLACES, "city train tower river"))[
            rng.integers(2)
        ]
        around = rng.permutation(others.split()).tolist()
        line = ["the", around[0], rng.choice(subjects), around[1], "and", around[2]]
        lines.append(" ".join(line))
    path = tmp_path / "story.txt"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


@pytest.fixture
def corpus(story):
    return read_corpus([story])
