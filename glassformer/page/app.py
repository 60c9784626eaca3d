"""The web application of the page: static files, API requests, event streams and cancellation."""

from __future__ import annotations

import asyncio
import json
import math
import traceback
from collections.abc import Mapping
from concurrent.futures import CancelledError
from functools import partial
from http import HTTPStatus
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from glassformer.errors import GlassformerError
from glassformer.page.access import AccessMiddleware, sentence
from glassformer.page.binary_response import as_json
from glassformer.page.compute_thread import Job, JobCancelledError, QueueFullError
from glassformer.page.events import EventStream
from glassformer.page.handlers import ROUTES
from glassformer.page.limits import RETRY_SECONDS
from glassformer.page.session import Response as Answer
from glassformer.page.session import Session
from glassformer.page.static_files import serve_file

EVENTS = "text/event-stream"
MAX_DEPTH = 32  # of nested objects and lists in a question


def make_app(session: Session) -> ASGIApp:
    """Returns the ASGI application of a session."""
    api = Api(session)
    routes = [
        Route("/api/cancel", api.cancel, methods=["POST"]),
        Route("/api/{question:path}", api.ask, methods=["POST"]),
        Route("/{path:path}", serve_file, methods=["GET"]),
    ]
    return AccessMiddleware(Starlette(routes=routes, exception_handlers={HTTPException: refused}))


class Api:
    """Answers the questions of the page."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.streamed: dict[str, Job[Answer]] = {}

    async def ask(self, request: Request) -> Response:
        """Answers a question; a client that accepts events receives the progress, too."""
        name = request.path_params["question"]
        question = ROUTES.get(name)
        if question is None:
            raise HTTPException(
                HTTPStatus.NOT_FOUND, f"Nobody here knows the question {name!r:.80}."
            )
        try:
            given = await body_of(request)
            submit = partial(self.session.submit, name, question, given)
            if EVENTS in request.headers.get("Accept", ""):
                return EventStream(submit, self.streamed, lambda error: explain(error)[1])
            answer = self.session.cached(name, given) or await computed(submit(), request)
            return Response(answer.body, media_type=answer.kind)
        except ClientDisconnect:
            return Response()  # nobody receives it
        except HTTPException:
            raise
        except (Exception, CancelledError) as error:
            status, why = explain(error)
            unavailable = status is HTTPStatus.SERVICE_UNAVAILABLE
            return sentence(status, why, {"Retry-After": f"{RETRY_SECONDS}"} if unavailable else {})

    async def cancel(self, request: Request) -> Response:
        """Cancels a streamed job by its id."""
        job = self.streamed.get(str((await body_of(request)).get("job")))
        if job is not None:
            job.cancel()
        return Response(as_json({"cancelled": job is not None}), media_type="application/json")


async def computed(job: Job[Answer], request: Request) -> Answer:
    """Waits for a job, and cancels it if the client closes the connection."""
    done = asyncio.wrap_future(job.future)
    gone = asyncio.ensure_future(request.receive())  # the body was read: the next message is last
    either: set[asyncio.Future[Any]] = {done, gone}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not done.done():
            raise ClientDisconnect
        return job.future.result()
    finally:
        job.cancel()
        done.cancel()
        gone.cancel()


def explain(error: BaseException) -> tuple[HTTPStatus, str]:
    """Returns the status and the sentence for an exception, and prints a traceback of defects."""
    match error:
        case GlassformerError():
            return HTTPStatus.BAD_REQUEST, str(error)
        case QueueFullError():
            return HTTPStatus.SERVICE_UNAVAILABLE, str(error)
        case JobCancelledError() | CancelledError():
            return HTTPStatus.SERVICE_UNAVAILABLE, "The computation was cancelled."
    traceback.print_exception(error)
    why = (str(error).splitlines() or [type(error).__name__])[0]
    said = f"The server could not answer this ({why:.200}); its terminal says more."
    return HTTPStatus.INTERNAL_SERVER_ERROR, said


async def refused(request: Request, error: Exception) -> Response:
    """Returns the response to a request that is not answered."""
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    why = (
        f"Only {headers['Allow']} is answered here."
        if "Allow" in headers
        else f"{error.detail.rstrip('.')}."
    )
    return sentence(HTTPStatus(error.status_code), why, headers)


# --- bodies ---------------------------------------------------------------------------------------


async def body_of(request: Request) -> Mapping[str, Any]:
    """Returns the validated JSON body of a request."""
    kind = request.headers.get("Content-Type", "text/plain").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"A request must be application/json, not {kind:.40}.",
        )
    if "Content-Length" not in request.headers and "Transfer-Encoding" not in request.headers:
        raise HTTPException(HTTPStatus.LENGTH_REQUIRED, "A question must say how long it is.")
    return await asyncio.to_thread(parsed, await request.body())


def parsed(text: bytes) -> Mapping[str, Any]:
    try:
        given = json.loads(text, parse_int=number, parse_float=number, parse_constant=number)
    except (ValueError, RecursionError):
        raise HTTPException(HTTPStatus.BAD_REQUEST, "The question is not JSON.") from None
    if not isinstance(given, dict):
        raise HTTPException(HTTPStatus.BAD_REQUEST, "A request must be a JSON object.")
    if not is_flat(given, MAX_DEPTH):
        raise HTTPException(
            HTTPStatus.BAD_REQUEST, f"A request may be nested at most {MAX_DEPTH} times."
        )
    return given


def is_flat(value: Any, most: int) -> bool:
    """Returns whether objects and lists are nested at most `most` times."""
    inner = value.values() if isinstance(value, dict) else value
    nested = (one for one in inner if isinstance(one, dict | list))
    return most > 0 and all(is_flat(one, most - 1) for one in nested)


def number(said: str) -> int | float:
    """Parses a JSON number.

    Raises for non-finite numbers, because Python parses NaN and 1e999, and for huge integers.
    """
    value, whole = float(said), said.lstrip("-").isdigit()
    if not math.isfinite(value) or (whole and abs(value) >= 2**31):
        raise ValueError(said)
    return int(said) if whole else value
