"""A hub on 127.0.0.1 with the endpoints that `huggingface_hub` uses to list and fetch files.

Large files are redirected to a second server, as the hub does. Both count requests, and both can
be told to misbehave.
"""

from __future__ import annotations

import hashlib
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

LARGE = 4096  # bytes from which on a file is named by its SHA-256


@dataclass
class Repository:
    commit: str
    files: dict[str, bytes]
    refusal: tuple[int, str] | None = None  # status and X-Error-Code of its files
    token: str | None = None  # without it, refused


@dataclass
class Hub:
    """`sent` has the path, the Range and the Authorization of every request for a file."""

    repositories: dict[str, Repository] = field(default_factory=dict)
    sent: list[tuple[str, str | None, str | None]] = field(default_factory=list)
    listed: int = 0
    cut: dict[str, list[int]] = field(default_factory=dict)  # bytes after which to break off
    altered: set[str] = field(default_factory=set)  # files that arrive with other bytes

    def __enter__(self) -> Hub:
        self.servers = [ThreadingHTTPServer(("127.0.0.1", 0), handler(self)) for _ in range(2)]
        for server in self.servers:
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        self.url, self.store = (f"http://127.0.0.1:{s.server_port}" for s in self.servers)
        return self

    def __exit__(self, *_: Any) -> None:
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def add(self, name: str, folder: Path, commit: str = "c" * 40, **more: Any) -> Repository:
        paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
        self.repositories[name] = Repository(commit, files, **more)
        return self.repositories[name]

    def requested(self, name: str) -> list[str | None]:
        """The Range of every request for a file, as its content was sent."""
        return [ranged for path, ranged, _ in self.sent if path.endswith(f"/{name}")]


def handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            parts = unquote(urlsplit(self.path).path).strip("/").split("/")
            if parts[:2] == ["api", "models"]:
                self.describe(parts[2:])
            elif "resolve" in parts:
                self.send_file(parts)
            else:
                self.refuse(404, "EntryNotFound")

        def describe(self, parts: list[str]) -> None:
            hub.listed += 1
            at = parts.index("revision") if "revision" in parts else len(parts)
            found = hub.repositories.get("/".join(parts[:at]))
            revision = "/".join(parts[at + 1 :]) or "main"
            if found is None or not self.knows(found.token):
                self.refuse(401, "RepoNotFound")
            elif revision not in ("main", found.commit):
                self.refuse(404, "RevisionNotFound")
            else:
                siblings = [described(*item) for item in found.files.items()]
                self.answer({"id": "/".join(parts[:at]), "sha": found.commit, "siblings": siblings})

        def send_file(self, parts: list[str]) -> None:
            at = parts.index("resolve")
            found = hub.repositories["/".join(parts[:at])]
            name, asked = "/".join(parts[at + 2 :]), self.headers.get("Range")
            if found.refusal is not None:
                self.refuse(*found.refusal)
                return
            body = found.files[name]
            if len(body) >= LARGE and self.server is hub.servers[0]:
                self.send_response(302)
                self.send_header("Location", hub.store + self.path)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            hub.sent.append(("/".join(parts), asked, self.headers.get("Authorization")))
            if name in hub.altered:
                body = bytes(255 - byte for byte in body)
            first = 0 if asked is None else int(asked.removeprefix("bytes=").split("-")[0])
            self.send_response(200 if asked is None else 206)
            self.send_header("Content-Length", str(len(body) - first))
            if asked is not None:
                self.send_header("Content-Range", f"bytes {first}-{len(body) - 1}/{len(body)}")
            self.end_headers()
            limits = hub.cut.get(name)
            if limits:
                self.wfile.write(body[first : first + limits.pop(0)])
                self.close_connection = True
            else:
                self.wfile.write(body[first:])

        def knows(self, token: str | None) -> bool:
            return token is None or self.headers.get("Authorization") == f"Bearer {token}"

        def refuse(self, status: int, code: str) -> None:
            self.send_response(status)
            self.send_header("X-Error-Code", code)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def answer(self, value: Any) -> None:
            body = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


def described(name: str, body: bytes) -> dict[str, Any]:
    git = hashlib.sha1(f"blob {len(body)}\0".encode() + body, usedforsecurity=False).hexdigest()
    found: dict[str, Any] = {"rfilename": name, "size": len(body), "blobId": git}
    if len(body) >= LARGE:
        digest = hashlib.sha256(body).hexdigest()
        found["lfs"] = {"sha256": digest, "size": len(body), "pointerSize": 130}
    return found
