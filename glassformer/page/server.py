"""The HTTP server of the page, on uvicorn. It listens on the loopback address only."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

import uvicorn

from glassformer.errors import ConfigError
from glassformer.interrupts import restore_handlers, set_handlers
from glassformer.page.access import ADDRESS
from glassformer.page.app import make_app
from glassformer.page.http_protocol import PageProtocol
from glassformer.page.limits import BACKLOG, KEEP_ALIVE_SECONDS, STOP_SECONDS
from glassformer.page.session import Session


class Server:
    """The HTTP server of a session; `port` 0 selects any free port."""

    def __init__(self, session: Session, port: int = 0) -> None:
        self.session = session
        self._socket = listen(port)
        self.port: int = self._socket.getsockname()[1]
        self._uvicorn = StoppableServer(session)
        self._stopped = Event()

    @property
    def address(self) -> str:
        return f"http://{ADDRESS}:{self.port}/"

    def serve_forever(self) -> None:
        """Serves until `shutdown` or a signal, which is raised again after the last response."""
        try:
            self._uvicorn.run([self._socket])
        finally:
            self._stopped.set()

    def shutdown(self) -> None:
        """Stops `serve_forever`, which runs in another thread, and cancels the session's jobs."""
        self._uvicorn.should_exit = True
        self._stopped.wait()


class StoppableServer(uvicorn.Server):
    """A uvicorn server that stops soon, whatever its clients do."""

    def __init__(self, session: Session) -> None:
        self._session = session
        super().__init__(
            uvicorn.Config(
                make_app(session),
                http=PageProtocol,
                loop="asyncio",
                ws="none",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                log_level=logging.ERROR,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                backlog=BACKLOG,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
            )
        )

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Ends the server at SIGHUP, too."""
        with super().capture_signals():
            before = set_handlers(self.handle_exit)
            try:
                yield
            finally:
                restore_handlers(before)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._session.close(patience=0)
        asyncio.get_running_loop().call_later(STOP_SECONDS, self._abort)
        await super().shutdown(sockets)

    def _abort(self) -> None:
        """Closes the connections that are still open."""
        for connection in list(self.server_state.connections):
            connection.transport.abort()


def listen(port: int) -> socket.socket:
    """Returns a socket that listens on the port."""
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((ADDRESS, port))
        found.listen(BACKLOG)
    except OSError as error:
        found.close()
        raise ConfigError(
            f"Port {port} of {ADDRESS} cannot be used ({error.strerror or error}); name "
            "another with --port, or --port 0 for any that is free."
        ) from None
    return found
