"""Requests with unusual values get a response or an error of one sentence, and never an internal
error; also many more jobs than the queue holds."""

from __future__ import annotations

import json
import random
from threading import Event
from typing import get_args, get_type_hints

import pytest
from quick import quick
from recorded import recorded

from glassformer.page.compute_thread import ComputeThread, QueueFullError
from glassformer.page.handlers import ROUTES

VALUES = (
    *(None, True, False, 0, -1, 1, 99, 2**30, 0.5, -1.5, 1e300, "", "a", "\ud800", "\0"),
    *("é" * 50, "x" * 200_000, [], [1], ["a"], [[]], [None], [{"a": 1}], {}, {"a": 1}),
    *("decoder", "nothing", "z", "logits", [0, 1], [[0, 0]], [0.5], {"text": "a"}),
    [{"what": "head", "layer": 0, "head": 0}],
)
GIVEN = {"model": "decoder", "text": "time flies like an arrow"}


@pytest.mark.parametrize("seed", quick(range(10)))
@pytest.mark.parametrize("name", ROUTES)
def test_an_odd_question_is_answered_or_refused(decoder, name, seed, request):
    (fields,) = get_args(get_type_hints(ROUTES[name])["request"])
    kinds = get_args(fields) or (fields,)  # of a union, all of them
    names = sorted({one for kind in kinds for one in get_type_hints(kind)}) or ["model"]
    rng = random.Random(f"{name} {seed}")
    for _ in range(5):
        odd = {one: rng.choice(VALUES) for one in rng.sample(names, min(len(names), 2))}
        with recorded(request, "question", name):
            status, kind, body = decoder.post(f"api/{name}", json.dumps(GIVEN | odd).encode())
            assert status in (200, 400), f"{odd}: {body!r:.300}"
            if status == 400:
                assert kind == "application/json" and json.loads(body)["error"].endswith(".")


def test_ten_thousand_jobs_are_refused_or_done():
    begun, go_on = Event(), Event()
    worker = ComputeThread(capacity=256)
    worker.submit(lambda: begun.set() or go_on.wait(60))
    assert begun.wait(60)
    accepted, refused = [], 0
    for number in range(10_000):
        try:
            accepted.append(worker.submit(lambda number=number: number))
        except QueueFullError:
            refused += 1
    assert (len(accepted), refused) == (256, 9744)
    go_on.set()
    assert [job.future.result(60) for job in accepted] == list(range(256))
    assert worker.submit(lambda: "next").future.result(60) == "next"
    assert worker.close(60)
