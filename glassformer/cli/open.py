"""glassformer open: the web page that shows the inside of models."""

from __future__ import annotations

import json
import os
import sys
import webbrowser
from threading import Thread
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.shared_options import AdapterOption, Download, HeadOption, zoo_names
from glassformer.cli.verbs import verb
from glassformer.errors import ConfigError, GlassformerError
from glassformer.zoo import PREFIX, for_a_visitor

if TYPE_CHECKING:
    from glassformer.page import Server, Session

PORT = 8700


@verb("open", group="Look inside")
def open_page(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            help="Folders or files of models, training runs or adapters, zoo:NAME or real:NAME; "
            "several can be compared. By default: all built-in models.",
            autocompletion=zoo_names,
            show_default=False,
        ),
    ] = None,
    adapter: AdapterOption = None,
    download: Download = False,
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help=f"The port; by default {PORT} or a free one; 0: a free one.",
        ),
    ] = None,
    text: Annotated[str | None, typer.Option(help="The text that is shown first.")] = None,
    head: HeadOption = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the address in a browser.")
    ] = True,
    check: Annotated[
        bool, typer.Option("--check", help="Start the server, send it one request, and exit.")
    ] = False,
) -> None:
    """Inspect models on a page in your browser.

    The page shows every step of a model on a text. The server listens on 127.0.0.1, so that only
    this machine can access it, and the page sends no request to another host. Ctrl-C stops the
    server.

    $ glassformer open zoo:stories --text "Once upon a time, there was a fox who"
    """
    from glassformer.page import Session

    if adapter is not None and len(models or ()) != 1:
        raise ConfigError("--adapter needs exactly one model; an adapter's folder is a model, too.")
    named = models or [f"{PREFIX}{name}" for name in for_a_visitor()]
    session = Session(named, text, head, adapter)
    session.prepare()
    server = listen(session, port)
    names = ", ".join(source.id for source in session.sources)
    print(f"Glassformer shows {names} at {server.address}", flush=True)
    if check:
        answer_to_itself(server)
        return
    print("Press Ctrl-C to stop it.", flush=True)
    if browser and has_display() and sys.stdout.isatty():
        Thread(target=webbrowser.open, args=(server.address,), daemon=True).start()
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        done = session.close()
        print("\nClosed.", flush=True)
        if not done:  # torch aborts if Python exits while it is computing
            os._exit(0)


def listen(session: Session, port: int | None) -> Server:
    """Starts the server on the given port, or else on the default port or any free one."""
    from glassformer.page import Server

    if port is not None:
        return Server(session, port)
    try:
        return Server(session, PORT)
    except GlassformerError:
        return Server(session, 0)


def answer_to_itself(server: Server) -> None:
    from urllib.request import Request, urlopen

    Thread(target=server.serve_forever, daemon=True).start()
    model_request = Request(
        f"{server.address}api/models", b"{}", {"Content-Type": "application/json"}
    )
    with urlopen(model_request, timeout=60) as answer:
        found = json.load(answer)["models"]
    server.shutdown()
    print(f"It answers: {', '.join(model['architecture'] for model in found)}.")


def has_display() -> bool:
    """Returns whether a browser can be displayed here."""
    shown = ("DISPLAY", "WAYLAND_DISPLAY")
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in shown)
