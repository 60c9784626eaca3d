"""HTTP/1.1 connections of the page's server: strict framing, and limits of size, time and number.

uvicorn's protocol on h11 parses requests and runs the application; here are the limits that it
lacks. A connection that breaks one receives one sentence as JSON and is closed.
"""

from __future__ import annotations

import asyncio
import re
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from glassformer.page import limits
from glassformer.page.access import SAFE_HEADERS
from glassformer.page.binary_response import as_json

LENGTH = re.compile(rb"^content-length[ \t]*:[ \t]*(.*?)[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
FOLDED = re.compile(rb"\n[ \t]+\S")  # a header that continues on the next line
RETRY = (b"retry-after", str(limits.RETRY_SECONDS).encode())


class StrictConnection(h11.Connection):
    """Refuses requests that are too large, and those whose length can be read in two ways.

    h11 accepts a length that is given twice, and ignores it beside Transfer-Encoding, as RFC 9112
    permits. A proxy may read such a request differently, and take a part of it for another one.
    """

    def __init__(self) -> None:
        super().__init__(h11.SERVER, limits.MAX_HEAD_BYTES)
        self.refusal = h11.RemoteProtocolError("The request is not HTTP/1.1.")
        self._received = 0  # bytes of the body

    def next_event(self) -> Any:
        head = self.trailing_data[0] if self.their_state is h11.IDLE else b""
        try:
            event = super().next_event()
            if isinstance(event, h11.Request):
                self._received = 0
                self._check_head(event, head[: len(head) - len(self.trailing_data[0])])
            elif isinstance(event, h11.Data):
                self._received += len(event.data)
                self._check_size(self._received)
        except h11.RemoteProtocolError as error:
            self.refusal = error
            raise
        return event

    def _check_head(self, request: h11.Request, head: bytes) -> None:
        if len(head) > limits.MAX_HEAD_BYTES:
            raise h11.RemoteProtocolError(
                f"The headers have more than {limits.MAX_HEAD_BYTES:,} bytes.",
                error_status_hint=HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
            )
        lengths = LENGTH.findall(head)
        chunked = any(name == b"transfer-encoding" for name, _ in request.headers)
        if len(lengths) + chunked > 1:
            raise h11.RemoteProtocolError("The request gives its length more than once.")
        if FOLDED.search(head):
            raise h11.RemoteProtocolError("A header of the request has more than one line.")
        if chunked and request.http_version != b"1.1":
            raise h11.RemoteProtocolError("Transfer-Encoding needs HTTP/1.1.")
        for length in lengths:
            if not re.fullmatch(rb"[0-9]+", length):
                raise h11.RemoteProtocolError("The Content-Length of the request is not a number.")
            self._check_size(int(length))

    def _check_size(self, size: int) -> None:
        if size > limits.MAX_BODY_BYTES:
            raise h11.RemoteProtocolError(
                f"The question has {size:,} bytes or more, and {limits.MAX_BODY_BYTES:,} are "
                "allowed; shorten it.",
                error_status_hint=HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            )


class PageProtocol(H11Protocol):
    """A connection with limits."""

    conn: StrictConnection

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn = StrictConnection()
        self.refused = False
        self._phase: tuple[Any, ...] | None = None  # what the client is expected to send
        self._receiving: asyncio.TimerHandle | None = None
        self._sending: asyncio.TimerHandle | None = None

    # --- events of the connection -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        others = [one for one in self.connections if isinstance(one, PageProtocol)]
        refused = sum(one.refused for one in others)
        if len(others) - refused > limits.MAX_CONNECTIONS:
            if refused >= limits.MAX_REFUSED:
                transport.abort()
            else:
                self.refuse(
                    HTTPStatus.SERVICE_UNAVAILABLE,
                    f"The server has {limits.MAX_CONNECTIONS} open connections, which is its "
                    "limit; close some or try again later.",
                    RETRY,
                )
        self._watch()

    def data_received(self, data: bytes) -> None:
        if not self.refused:
            super().data_received(data)
            self._watch()

    def eof_received(self) -> None:
        if not self.refused and self._phase is not None and self._has_begun():
            self.refuse(HTTPStatus.BAD_REQUEST, "The request ended before it was complete.")

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._receiving, self._sending):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def shutdown(self) -> None:
        if self.refused:
            self.transport.abort()
        else:
            super().shutdown()

    def send_400_response(self, msg: str) -> None:
        """Refuses what h11 does not accept as a request."""
        error = self.conn.refusal
        hint = HTTPStatus(error.error_status_hint)
        known = (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        status = hint if hint in known else HTTPStatus.BAD_REQUEST
        self.refuse(status, f"{str(error).rstrip('.')}.")

    # --- limits -----------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Limits the time to send a request's head and body, however many bytes arrive."""
        state = self.conn.their_state
        head = state is h11.IDLE and (self.cycle is None or self._has_begun())
        phase = (state, self.cycle) if head or state is h11.SEND_BODY else None
        if phase == self._phase:
            return
        self._phase = phase
        if self._receiving is not None:
            self._receiving.cancel()
        if phase is not None:
            seconds = limits.HEAD_SECONDS if head else limits.BODY_SECONDS
            self._receiving = self.loop.call_later(seconds, self._give_up)

    def _has_begun(self) -> bool:
        """Whether a part of a request was received."""
        return self.conn.their_state is not h11.IDLE or self.conn.trailing_data[0] != b""

    def _give_up(self) -> None:
        if self._has_begun():
            self.refuse(
                HTTPStatus.REQUEST_TIMEOUT, "The rest of the request did not arrive in time."
            )
        else:  # a browser opens connections in advance
            self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._sending = self.loop.call_later(limits.SEND_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._sending is not None:
            self._sending.cancel()

    def refuse(self, status: HTTPStatus, why: str, *headers: tuple[bytes, bytes]) -> None:
        """Responds with one sentence in place of the application, and closes the connection.

        The client may be sending still. It would not receive the response if the connection were
        closed at once, so what it sends is discarded for some time.
        """
        self.refused = True
        if self.cycle is not None:  # the application sees a client that is gone
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):  # a response was begun
            self.transport.abort()
            return
        body = as_json({"error": why})
        safe = [(name.encode(), value.encode()) for name, value in SAFE_HEADERS.items()]
        response = h11.Response(
            status_code=status,
            reason=status.phrase.encode(),
            headers=[
                *self.server_state.default_headers,
                *safe,
                *headers,
                (b"content-type", b"application/json"),
                (b"content-length", str(len(body)).encode()),
                (b"connection", b"close"),
            ],
        )
        for event in (response, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.write_eof()
        self.flow.resume_reading()
        self._receiving = self.loop.call_later(limits.LINGER_SECONDS, self.transport.abort)
