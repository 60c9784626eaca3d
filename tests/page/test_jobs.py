"""Jobs: the queue, cancellation, and the events of long work."""

from __future__ import annotations

import base64
import json
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Any

import pytest
import torch
from packed import unpacked

from glassformer.inside.capture.cancellation import check_cancelled, report_progress
from glassformer.page import handlers
from glassformer.page.compute_thread import ComputeThread, JobCancelledError, QueueFullError
from glassformer.page.lru_cache import LruCache

TEXT = "time flies like an arrow"
SECONDS = 20  # that a test waits before it fails


class Long:
    """A handler that computes until it is told to end, or cancelled."""

    def __init__(self) -> None:
        self.begun, self.end, self.stopped = Event(), Event(), Event()
        self.passes = 0

    def __call__(self, session: Any, asked: Any) -> dict[str, Any]:
        try:
            while not self.end.wait(0.005):
                self.begun.set()
                self.passes += 1
                report_progress(self.passes, None)
        finally:
            self.stopped.set()
        return {"passes": self.passes}


def until(condition: Callable[[], bool]) -> None:
    ends = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.005)


@pytest.fixture
def long(decoder, monkeypatch) -> Iterator[Long]:
    handler = Long()
    monkeypatch.setattr(decoder.server.session, "_answers", LruCache(9))
    monkeypatch.setitem(handlers.ROUTES, "long", handler)
    yield handler
    handler.end.set()
    assert not handler.begun.is_set() or handler.stopped.wait(SECONDS)


@contextmanager
def asked(served, question: str, accept: str = "*/*", **given: Any) -> Iterator[socket.socket]:
    """A connection on which a question was asked."""
    body = json.dumps(given).encode()
    head = (
        f"POST /api/{question} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Accept: {accept}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with served.connect() as line:
        line.settimeout(SECONDS)
        line.sendall(head.encode() + body)
        yield line


@contextmanager
def streamed(served, question: str, **given: Any) -> Iterator[Iterator[tuple[str, Any]]]:
    """The events of a question."""
    with (
        asked(served, question, "text/event-stream", **given) as line,
        line.makefile("rb") as lines,
    ):
        assert b" 200 " in next(lines)
        head = [one.lower().strip() for one in iter(lambda: next(lines), b"\r\n")]
        assert b"content-type: text/event-stream; charset=utf-8" in head
        assert b"cache-control: no-store" in head
        yield events(lines)


def events(lines: Any) -> Iterator[tuple[str, Any]]:
    name = ""
    for line in lines:  # the sizes of chunks are neither of the two
        key, _, value = line.decode().rstrip("\r\n").partition(": ")
        if key == "event":
            name = value
        elif key == "data":
            yield name, value if name == "binary" else json.loads(value)


# --- requests -------------------------------------------------------------------------------------


def test_who_goes_away_ends_what_is_computed_for_them(decoder, long):
    with asked(decoder, "long"):
        assert long.begun.wait(SECONDS)
    assert long.stopped.wait(SECONDS)
    assert not long.end.is_set()
    assert decoder.ask("models")["models"]


def test_who_went_away_is_not_computed_for(decoder, long, monkeypatch):
    done: list[str] = []
    monkeypatch.setitem(handlers.ROUTES, "note", lambda s, asked: done.append("note") or {})
    with asked(decoder, "long") as line:
        assert long.begun.wait(SECONDS)
        with asked(decoder, "note"):
            waiting = decoder.server.session._worker._short
            until(lambda: len(waiting) == 1)
        until(lambda: waiting[0].cancelled)
        long.end.set()
        assert b"passes" in line.makefile("rb").read()
    assert decoder.ask("models", a=1)["models"]
    assert done == []


def test_a_forward_pass_is_a_place_to_stop(decoder):
    """Between two passes of a long work: the third one is not begun."""
    session, passes = decoder.server.session, []
    run = {"model": "decoder", "text": "an arrow goes away"}

    def work(session, asked):
        view = session.view(asked)
        for layer in range(3):
            view.capture([f"decoder.blocks.{layer}.z"])
            passes.append(layer)
            if len(passes) == 2:
                job.cancel()
        return {}

    job = session.submit("work", work, run)
    with pytest.raises(JobCancelledError):
        job.future.result(SECONDS)
    assert passes == [0, 1]
    assert session.submit("work", work, run).future.result(SECONDS).body == b"{}"


def test_a_queue_that_is_full_is_said(decoder, long, monkeypatch):
    monkeypatch.setattr(decoder.server.session._worker, "capacity", 2)
    with asked(decoder, "long"):
        assert long.begun.wait(SECONDS)
        with asked(decoder, "read", model="decoder"), asked(decoder, "read", model="decoder"):
            until(lambda: len(decoder.server.session._worker._short) == 2)
            with asked(decoder, "models", a=2) as line:
                found = line.makefile("rb").read()
            assert b" 503 " in found and b"retry-after: 1\r\n" in found.lower()
            assert b"2 requests are waiting, which is the limit" in found
            with asked(decoder, "models", "text/event-stream", a=3) as line:
                assert b" 503 " in line.makefile("rb").read()
    assert long.stopped.wait(SECONDS)
    assert decoder.ask("models", a=2)["models"]


# --- event streams --------------------------------------------------------------------------------


def test_progress_and_answer_are_streamed(decoder, long):
    with streamed(decoder, "long", a=1) as stream:
        name, job = next(stream)
        assert name == "job" and job["job"]
        seen = [next(stream) for _ in range(3)]
        assert {name for name, _ in seen} == {"progress"}
        done = [data["done"] for _, data in seen]
        assert done == sorted(done) and seen[0][1]["total"] is None
        long.end.set()
        *_, (name, answer) = stream
    assert (name, answer) == ("answer", {"passes": long.passes})
    with streamed(decoder, "long", a=1) as stream:  # the second time from the cache
        assert [name for name, _ in stream][-1] == "answer"
    assert long.passes == answer["passes"]


def test_a_sweep_says_how_far_it_is(decoder, monkeypatch):
    given = {"model": "decoder", "text": "time flies", "from": "fruit flies", "at": "z"}
    facts, arrays = decoder.ask("sweep", **given)
    monkeypatch.setattr(decoder.server.session, "_answers", LruCache(9))
    with streamed(decoder, "sweep", **given) as stream:
        seen = list(stream)
    assert seen[0][0] == "job" and seen[-1][0] == "binary"
    layers = arrays["effect"].shape[0]
    told = [data for name, data in seen if name == "progress"]
    assert all(data["total"] == layers and data["done"] < layers for data in told)
    again, others = unpacked(base64.b64decode(seen[-1][1]))
    assert again == facts
    assert (others["effect"] == arrays["effect"]).all()


def test_an_error_is_the_last_event(decoder):
    with streamed(decoder, "read", model="nothing") as stream:
        *_, (name, data) = stream
    assert name == "error" and "There is no model 'nothing'" in data["error"]


def test_a_stream_is_cancelled_by_its_id(decoder, long):
    with streamed(decoder, "long") as stream:
        job = next(stream)[1]["job"]
        assert long.begun.wait(SECONDS)
        assert decoder.ask("cancel", job=job) == {"cancelled": True}
        assert long.stopped.wait(SECONDS) and not long.end.is_set()
        *_, (name, data) = stream
    assert (name, data) == ("error", {"error": "The computation was cancelled."})
    assert decoder.ask("cancel", job=job) == {"cancelled": False}  # it is not there any more
    assert decoder.ask("cancel") == {"cancelled": False}


def test_a_stream_that_waits_can_be_cancelled(decoder, long):
    with asked(decoder, "long") as line:
        assert long.begun.wait(SECONDS)
        with streamed(decoder, "long", a=2) as stream:
            job = next(stream)[1]["job"]
            assert decoder.ask("cancel", job=job) == {"cancelled": True}
            assert [name for name, _ in stream] == ["error"]
        long.end.set()
        assert b"passes" in line.makefile("rb").read()


def test_a_stream_ends_with_its_connection(decoder, long):
    with streamed(decoder, "long") as stream:
        assert next(stream)[0] == "job"
        assert long.begun.wait(SECONDS)
    assert long.stopped.wait(SECONDS)
    assert not long.end.is_set()


def test_questions_are_answered_while_long_work_goes_on(decoder, long):
    with streamed(decoder, "long") as stream:
        assert next(stream)[0] == "job"
        assert long.begun.wait(SECONDS)
        for n in range(3):
            text = f"{TEXT} while {n}"
            assert decoder.ask("next", model="decoder", text=text)["positions"]
            assert decoder.get("page.css")[0] == 200
        assert not long.stopped.is_set()
        long.end.set()
        *_, (name, _) = stream
    assert name == "answer"


def test_an_answer_beside_long_work_has_gradients(decoder, long, monkeypatch):
    """Though the long work has disabled them."""
    quiet = torch.no_grad()(long.__call__)
    monkeypatch.setitem(handlers.ROUTES, "quiet", quiet)
    monkeypatch.setitem(
        handlers.ROUTES, "grad", lambda session, asked: {"enabled": torch.is_grad_enabled()}
    )
    with streamed(decoder, "quiet"):
        assert long.begun.wait(SECONDS)
        assert decoder.ask("grad") == {"enabled": True}


# --- the compute thread ---------------------------------------------------------------------------


def test_it_can_be_closed_while_it_computes():
    begun, go_on = Event(), Event()
    worker = ComputeThread()

    def job():
        begun.set()
        go_on.wait(SECONDS)
        return "done"

    with ThreadPoolExecutor(1) as pool:
        running = worker.submit(job)
        waiting = worker.submit(job)
        found = pool.submit(running.future.result, SECONDS)
        assert begun.wait(SECONDS)
        assert not worker.close(0.05)  # still at work
        with pytest.raises(CancelledError):
            waiting.future.result(0)
        go_on.set()
        assert found.result(SECONDS) == "done"
        assert worker.close(SECONDS)
    with pytest.raises(JobCancelledError):
        worker.submit(job)


def test_closing_ends_what_can_be_cancelled():
    begun = Event()
    worker = ComputeThread()

    def job():
        while True:
            begun.set()
            check_cancelled()

    running = worker.submit(job)
    assert begun.wait(SECONDS)
    assert worker.close(SECONDS)
    with pytest.raises(JobCancelledError):
        running.future.result(SECONDS)


def test_a_cancelled_job_leaves_its_place_in_the_queue():
    begun, go_on = Event(), Event()
    worker = ComputeThread(capacity=2)
    worker.submit(lambda: begun.set() or go_on.wait(SECONDS))
    assert begun.wait(SECONDS)
    jobs = [worker.submit(lambda: "done") for _ in range(2)]
    with pytest.raises(QueueFullError):
        worker.submit(lambda: "done")
    jobs[0].cancel()
    last = worker.submit(lambda: "last")
    go_on.set()
    assert (jobs[1].future.result(SECONDS), last.future.result(SECONDS)) == ("done", "last")
    assert jobs[0].future.cancelled()
    assert worker.close(SECONDS)


def test_long_work_waits_for_all_others():
    begun, go_on, order = Event(), Event(), []
    worker = ComputeThread()
    worker.submit(lambda: begun.set() or go_on.wait(SECONDS))
    assert begun.wait(SECONDS)
    last = worker.submit(lambda: order.append("long"), lambda done, total: None)
    worker.submit(lambda: order.append("short"))
    go_on.set()
    last.future.result(SECONDS)
    assert order == ["short", "long"]
    assert worker.close(SECONDS)
