"""Access checks and safe headers of the page's server.

A browser lets any page send requests to any address, and a domain name may resolve to this machine;
a request must therefore name this machine as its host, and come from the page that was served here.
"""

from __future__ import annotations

import re
from http import HTTPStatus

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from glassformer.page.binary_response import as_json

ADDRESS = "127.0.0.1"
HOST = re.compile(rf"({re.escape(ADDRESS)}|localhost)(:\d{{1,5}})?")
SAFE_HEADERS = {  # let the page send requests to this server only, and nobody embed it
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


def sentence(status: HTTPStatus, why: str, headers: dict[str, str] | None = None) -> Response:
    """Returns a response that says in one sentence what is wrong."""
    body = as_json({"error": why})
    return Response(body, status, headers, media_type="application/json")


class AccessMiddleware:
    """Refuses requests for another host or from another origin; adds safe headers to responses."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SAFE_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        why = refusal(scope)
        app = self.app if why is None else sentence(HTTPStatus.FORBIDDEN, why)
        await app(scope, receive, send_safely)


def refusal(scope: Scope) -> str | None:
    """Returns why a request is refused, or None."""
    headers = Headers(scope=scope)
    host, target = ", ".join(headers.getlist("Host")), scope["raw_path"].decode("latin-1")
    if not target.startswith("/"):  # an absolute URL, as sent to a proxy
        host = target
    if not HOST.fullmatch(host):
        return f"This is {ADDRESS}, not {host!r:.80}; open the address itself."
    origins = headers.getlist("Origin")
    site = headers.get("Sec-Fetch-Site", "same-origin")
    visited = headers.get("Sec-Fetch-Mode") == "navigate" and scope["method"] == "GET"
    foreign = any(origin != f"http://{host}" for origin in origins)
    if foreign or (site not in ("same-origin", "none") and not visited):
        other = ", ".join(origins) or "another one"
        return f"Only the page that is served here may ask, not {other!r:.80}."
    return None
