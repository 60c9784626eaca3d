"""A server that runs in this process, and how it is asked."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

from packed import unpacked

from glassformer.page import Server, Session


@dataclass
class Served:
    """A server that runs, and how it is asked."""

    server: Server

    @property
    def address(self) -> str:
        return self.server.address

    def ask(self, question: str, **given: Any) -> Any:
        """A JSON answer as it is, one with arrays as (metadata, arrays of numpy)."""
        status, kind, body = self.post(f"api/{question}", json.dumps(given).encode())
        assert status == 200, body
        return unpacked(body) if kind == "application/octet-stream" else json.loads(body)

    def refused(self, question: str, **given: Any) -> tuple[int, str]:
        """The status and the sentence of a question that is not answered."""
        status, _, body = self.post(f"api/{question}", json.dumps(given).encode())
        assert status >= 400, body
        return status, json.loads(body)["error"]

    def post(self, path: str, body: bytes, **headers: str) -> tuple[int, str, bytes]:
        given = {"Content-Type": "application/json"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        request = urllib.request.Request(self.address + path, body, given)
        return self.send(request)

    def get(self, path: str, **headers: str) -> tuple[int, str, bytes]:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.send(urllib.request.Request(self.address + path, headers=given))

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.server.port), timeout=20)

    def raw(self, head: str, body: bytes = b"", ends: bool = False) -> bytes:
        """What comes back for bytes as they are; `ends`: no more will come."""
        with self.connect() as line:
            line.sendall(head.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body)
            if ends:
                line.shutdown(socket.SHUT_WR)
            return received(line)

    def send(self, request: urllib.request.Request) -> tuple[int, str, bytes]:
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.headers["Content-Type"], answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers["Content-Type"], error.read()


def received(line: socket.socket) -> bytes:
    """All that comes until the server closes the connection."""
    found = b""
    while part := line.recv(65536):
        found += part
    return found


def serve(
    *sources: str | Path, text: str | None = None, head: str | None = None
) -> Iterator[Served]:
    server = Server(Session([str(source) for source in sources], text, head))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield Served(server)
    server.shutdown()
    thread.join()
