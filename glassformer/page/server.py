"""The HTTP server of the page. It listens on the loopback address only.

A browser lets any page send requests to any address, and a domain name may resolve to this machine;
a request must therefore name this machine as its host, and come from the page that was served here.
"""

from __future__ import annotations

import json
import math
import mimetypes
import re
import select
import socket
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from glassformer.errors import GlassformerError
from glassformer.page.binary_response import as_json
from glassformer.page.handlers import QUESTIONS
from glassformer.page.session import Session

STATIC = Path(__file__).parent / "static"
ADDRESS = "127.0.0.1"
HOST = re.compile(rf"({re.escape(ADDRESS)}|localhost)(:\d{{1,5}})?")
LARGEST = 2**22  # maximum number of bytes of a request body
PATIENCE = 2  # seconds to wait for the rest of a refused request
GUARDS = {  # headers that let the page send requests to this server only
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


class Server(ThreadingHTTPServer):
    """The HTTP server of a session; `port` 0 selects any free port."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, session: Session, port: int = 0) -> None:
        self.session = session
        try:
            super().__init__((ADDRESS, port), Handler)
        except OSError as error:
            raise GlassformerError(
                f"Port {port} of {ADDRESS} cannot be used ({error.strerror or error}); name "
                "another with --port, or --port 0 for any that is free."
            ) from None

    @property
    def address(self) -> str:
        return f"http://{ADDRESS}:{self.server_port}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores browsers that closed the connection."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


def number(said: str) -> int | float:
    """Parses a JSON number.

    Raises for non-finite numbers, because Python parses NaN and 1e999, and for huge integers.
    """
    value, whole = float(said), said.lstrip("-").isdigit()
    if not math.isfinite(value) or (whole and abs(value) >= 2**31):
        raise ValueError(said)
    return int(said) if whole else value


class RefusedError(GlassformerError):
    """A request that is refused, with the HTTP status of the response."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


class Handler(BaseHTTPRequestHandler):
    """Serves the page's files (GET) and answers API requests (POST)."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "glassformer", ""
    disable_nagle_algorithm = True
    drained = False  # whether the request body was read completely
    timeout = 120  # seconds of inactivity before a connection is closed

    def do_GET(self) -> None:
        self.guarded(self.serve_file)

    do_HEAD = do_GET  # noqa: N815

    def do_POST(self) -> None:
        self.guarded(self.answer)

    # --- responses -------------------------------------------------------------------------------

    def serve_file(self) -> None:
        files = {path.relative_to(STATIC).as_posix(): path for path in STATIC.rglob("*")}
        name = urlsplit(self.path).path.removeprefix("/") or "index.html"
        path = files.get(name)
        if path is None or not path.is_file():
            built = "index.html" in files
            raise RefusedError(
                HTTPStatus.NOT_FOUND,
                f"There is no page {name!r:.80} here."
                if built
                else "The page was not built: `make page` does it, with Node.",
            )
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        kind += "; charset=utf-8" if kind.startswith("text/") else ""
        self.send(HTTPStatus.OK, kind, path.read_bytes())

    def answer(self) -> None:
        name = self.path.removeprefix("/api/")
        question = QUESTIONS.get(name) if self.path.startswith("/api/") else None
        if question is None:
            raise RefusedError(
                HTTPStatus.NOT_FOUND, f"Nobody here knows the question {name!r:.80}."
            )
        body = self.body()
        found = self.server_session.answer(name, question, body, self.is_gone)
        if found is None:
            self.close_connection = True
        else:
            self.send(HTTPStatus.OK, found.kind, found.body)

    def body(self) -> Mapping[str, Any]:
        """Returns the validated JSON body of a request."""
        kind = self.headers.get_content_type()
        if kind != "application/json":
            raise RefusedError(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                f"A question is application/json, not {kind:.40}.",
            )
        size = self.size()
        if size is None:
            raise RefusedError(HTTPStatus.LENGTH_REQUIRED, "A question must say how long it is.")
        if size > LARGEST:
            raise RefusedError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"The question has {size:,} bytes, and {LARGEST:,} are allowed; shorten it.",
            )
        self.drained = True
        text = self.rfile.read(size)
        if len(text) < size:
            raise RefusedError(
                HTTPStatus.BAD_REQUEST, f"The question ended after {len(text)} bytes of {size}."
            )
        try:
            given = json.loads(text, parse_int=number, parse_float=number, parse_constant=number)
        except (ValueError, RecursionError):
            raise RefusedError(HTTPStatus.BAD_REQUEST, "The question is not JSON.") from None
        if not isinstance(given, dict):
            raise RefusedError(HTTPStatus.BAD_REQUEST, "A question is a JSON object.")
        return given

    def size(self) -> int | None:
        """The content length of the request, if it is given."""
        said = self.headers.get_all("Content-Length", [])
        return int(said[0]) if len(said) == 1 and re.fullmatch("[0-9]{1,40}", said[0]) else None

    @property
    def server_session(self) -> Session:
        return cast(Server, self.server).session

    def is_gone(self) -> bool:
        """Whether the client has closed the connection."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""

    # --- access checks ---------------------------------------------------------------------------

    def check(self) -> None:
        """Refuses requests for another host or from another origin."""
        host = ", ".join(self.headers.get_all("Host", []))
        if not self.path.startswith("/"):  # an absolute URL, as sent to a proxy
            host = self.path
        if not HOST.fullmatch(host):
            raise RefusedError(
                HTTPStatus.FORBIDDEN,
                f"This is {ADDRESS}, not {host!r:.80}; open the address itself.",
            )
        origin = self.headers.get("Origin")
        site = self.headers.get("Sec-Fetch-Site", "same-origin")
        visited = self.headers.get("Sec-Fetch-Mode") == "navigate" and self.command == "GET"
        foreign = origin is not None and origin != f"http://{host}"
        if foreign or (site not in ("same-origin", "none") and not visited):
            raise RefusedError(
                HTTPStatus.FORBIDDEN,
                f"Only the page that is served here may ask, not {origin or 'another one'!r:.80}.",
            )

    def guarded(self, work: Callable[[], None]) -> None:
        """Runs a handler after the access checks and converts errors to responses."""
        self.drained = False
        try:
            self.check()
            work()
        except ConnectionError:
            self.close_connection = True
        except RefusedError as error:
            self.close_connection = True
            self.send_sentence(error.status, str(error))
            self.drain()
        except GlassformerError as error:
            self.send_sentence(HTTPStatus.BAD_REQUEST, str(error))
        except Exception as error:
            traceback.print_exc()
            why = (str(error).splitlines() or [type(error).__name__])[0]
            said = f"The server could not answer this ({why:.200}); its terminal says more."
            self.send_sentence(HTTPStatus.INTERNAL_SERVER_ERROR, said)

    def drain(self) -> None:
        """Reads the rest of a refused request within limits.

        If the connection were closed in the middle of a request, the client would not receive the
        response.
        """
        left = 0 if self.drained else min(self.size() or 0, 16 * LARGEST)
        self.connection.settimeout(PATIENCE)
        with suppress(OSError):
            while left > 0 and (part := self.rfile.read1(min(left, 2**16))):
                left -= len(part)
        self.drained = True

    def send_sentence(self, status: HTTPStatus, sentence: str) -> None:
        self.send(status, "application/json", as_json({"error": sentence}))

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Responds to what http.server itself rejects: unknown methods and malformed requests."""
        self.close_connection = True
        said = message or HTTPStatus(code).phrase
        self.send_sentence(HTTPStatus(code), f"{said}.")

    def send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        for name, value in GUARDS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing: the terminal shows only the address and errors."""
