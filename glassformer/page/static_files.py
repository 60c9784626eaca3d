"""The built page's files: compressed once, with an ETag by content."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

STATIC = Path(__file__).parent / "static"


@dataclass(frozen=True)
class StaticFile:
    """A file, as it is and compressed."""

    kind: str  # content type
    etag: str
    plain: bytes
    zipped: bytes


@lru_cache(maxsize=64)
def load(path: Path, modified: int) -> StaticFile:
    """Reads and compresses a file; `modified` is its time stamp, so that a new build is noticed."""
    body = path.read_bytes()
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    etag = hashlib.sha256(body).hexdigest()[:32]
    return StaticFile(kind, etag, body, gzip.compress(body, mtime=0))


async def serve_file(request: Request) -> Response:
    """Answers GET and HEAD for a file of the page."""
    files = {path.relative_to(STATIC).as_posix(): path for path in STATIC.rglob("*")}
    name = request.path_params["path"] or "index.html"
    path = files.get(name)
    if path is None or not path.is_file():
        raise HTTPException(
            HTTPStatus.NOT_FOUND,
            f"There is no page {name!r:.80} here."
            if "index.html" in files
            else "The page was not built: `make page` does it, with Node.",
        )
    file = load(path, path.stat().st_mtime_ns)
    small = accepts_gzip(request.headers.get("Accept-Encoding", ""))
    etag = f'"{file.etag}{"-gzip" if small else ""}"'
    headers = {"ETag": etag, "Vary": "Accept-Encoding", "Cache-Control": "no-cache"}
    known = [one.strip().removeprefix("W/") for one in listed(request, "If-None-Match")]
    if etag in known or "*" in known:
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    if small:
        headers["Content-Encoding"] = "gzip"
    return Response(file.zipped if small else file.plain, headers=headers, media_type=file.kind)


def listed(request: Request, name: str) -> list[str]:
    return ",".join(request.headers.getlist(name)).split(",")


def accepts_gzip(accepted: str) -> bool:
    """Returns whether a client reads gzip, by its Accept-Encoding header."""
    for one in accepted.lower().split(","):
        coding, _, quality = one.partition(";")
        if coding.strip() == "gzip":
            weight = quality.strip().removeprefix("q=") or "1"
            return weight.strip("0.") != ""
    return False
