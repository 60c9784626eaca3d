"""Long computations report their progress and can be canceled."""

from __future__ import annotations

import pytest
import small

from glassformer import inside
from glassformer.inside.capture.cancellation import cancellable, check_cancelled, report_progress
from glassformer.inside.intervene.patching import sweep

TEXTS = ["time flies like an arrow", "fruit flies like a banana", "a robot must obey"]


def test_a_sweep_reports_its_layers():
    model, seen = small.decoder(), []
    with cancellable(lambda: None, lambda done, total: seen.append((done, total))):
        found = sweep(model, "time flies like", "fruit flies like")
    layers = found.array.shape[0]
    assert seen == [(layer, layers) for layer in range(layers)]


def test_a_corpus_reports_its_texts():
    model, seen = small.decoder(), []
    with cancellable(lambda: None, lambda done, total: seen.append((done, total))):
        inside.max_activating(model, TEXTS, 0, 1, tokens_per_batch=1)
        inside.max_activating(model, iter(TEXTS), 0, 1, tokens_per_batch=1)
    assert seen == [*((n, 3) for n in (1, 2, 3)), *((n, None) for n in (1, 2, 3))]


def test_progress_is_a_place_to_stop():
    seen = []

    def stop():
        raise TimeoutError

    with cancellable(stop, lambda done, total: seen.append(done)), pytest.raises(TimeoutError):
        report_progress(1, 2)
    assert seen == []


def test_nothing_happens_where_nobody_asks():
    check_cancelled()
    report_progress(1, 2)
    with cancellable(lambda: None):
        report_progress(1, 2)
