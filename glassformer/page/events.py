"""Server-sent events: the progress and the result of a job.

The stream begins with an event `job`, whose id cancels the job (POST /api/cancel). Events
`progress` follow, with `done` and `total`, and at last one of `answer` (JSON), `binary` (a binary
response in base64) and `error` (a sentence).
"""

from __future__ import annotations

import asyncio
import secrets
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from glassformer.inside.capture.cancellation import ProgressCallback
from glassformer.page.binary_response import as_json
from glassformer.page.compute_thread import Job
from glassformer.page.limits import HEARTBEAT_SECONDS
from glassformer.page.session import Response


def event(name: str, data: bytes) -> bytes:
    """Encodes an event; JSON and base64 have no line breaks."""
    return b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"


class EventStream(StreamingResponse):
    """Streams the events of a job, which ends with the stream.

    Args:
        submit: Queues the job, with a callback for its progress.
        jobs: The streamed jobs by id; has this one while it is streamed.
        explain: Returns the sentence that tells a client about an exception.
    """

    def __init__(
        self,
        submit: Callable[[ProgressCallback], Job[Response]],
        jobs: dict[str, Job[Response]],
        explain: Callable[[BaseException], str],
    ) -> None:
        super().__init__(self._events(), media_type="text/event-stream")
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._latest: tuple[int, int | None] | None = None  # a slow client skips some
        self._jobs, self._explain = jobs, explain
        self._id = secrets.token_hex(8)
        self._job = jobs[self._id] = submit(self._on_progress)
        self._job.future.add_done_callback(lambda future: self._wake())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._job.cancel()
            del self._jobs[self._id]

    def _on_progress(self, done: int, total: int | None) -> None:
        self._latest = done, total
        self._wake()

    def _wake(self) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._changed.set)

    async def _events(self) -> AsyncIterator[bytes]:
        yield event("job", as_json({"job": self._id}))
        future = self._job.future
        while not future.done():
            latest, self._latest = self._latest, None
            if latest is not None:
                yield event("progress", as_json({"done": latest[0], "total": latest[1]}))
                continue
            try:
                await asyncio.wait_for(self._changed.wait(), HEARTBEAT_SECONDS)
                self._changed.clear()
            except TimeoutError:
                yield b": still computing\n\n"
        yield self._result()

    def _result(self) -> bytes:
        try:
            response = self._job.future.result()
        except BaseException as error:
            return event("error", as_json({"error": self._explain(error)}))
        if response.kind == "application/json":
            return event("answer", response.body)
        return event("binary", b64encode(response.body))
