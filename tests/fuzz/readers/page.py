"""Requests to the page: the HTTP head, and the JSON body of every question."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import h11
from starlette.exceptions import HTTPException

from glassformer.errors import InputError
from glassformer.page.app import parsed
from glassformer.page.handlers import ROUTES
from glassformer.page.http_protocol import StrictConnection
from glassformer.page.session import Session, answer_key
from tests.fuzz.readers import _made
from tests.fuzz.registry import Sample, reader

TEXT = "time flies like an arrow"
RUN = {"model": "model", "text": TEXT}
AT = "decoder.blocks.0"
HEAD = {**RUN, "attention_type": "decoder", "layer": 0, "head": 1, "query": 1}
OFF = {"kind": "scale", "at": f"{AT}.z", "heads": [0], "positions": [0], "factor": 0.0}
ADD = {"kind": "add", "at": f"{AT}.resid_post", "vector": [0.1] * 16, "positions": [0]}
QUESTIONS = (
    ("structure", {"model": "model"}),
    ("read", RUN),
    ("array", {**RUN, "name": f"{AT}.q", "at": {"head": 0, "position": [0, 2]}}),
    ("vocabulary", {"model": "model", "begins": "t", "count": 5}),
    ("attention", {**HEAD, "view": "head"}),
    ("attention", {**HEAD, "view": "model", "size": 4, "first": 0, "end": 1}),
    ("heads", {**RUN, "attention_type": "decoder"}),
    ("walk", {**RUN, "stack": "decoder", "layer": 0, "head": 0}),
    ("cell", {**RUN, "name": f"{AT}.q", "head": 0, "row": 0, "col": 0, "limit": 3}),
    ("next", {**RUN, "position": 1, "count": 5, "temperature": 0.5, "top_k": 4, "top_p": 0.9}),
    ("continue", {**RUN, "token": 5, "position": 1}),
    ("beams", {**RUN, "beams": 2, "length": 2, "length_penalty": 1.0}),
    ("step", {**RUN, "length": 2, "seed": 1, "sample": True, "min_p": 0.1}),
    ("lens", {**RUN, "token": 5}),
    ("lens_cell", {**RUN, "row": 1, "position": 1, "count": 3}),
    ("contributions", {**RUN, "position": 1, "token": 5, "against": 6}),
    ("saliency", {**RUN, "position": 1, "token": 5, "method": "gradient"}),
    ("positions", {"model": "model", "length": 8, "text": TEXT}),
    ("edit", {**RUN, "edits": [OFF, ADD], "temperature": 0.7, "position": 1}),
    ("edit_text", {**RUN, "edits": [OFF], "length": 1}),
    ("sweep", {**RUN, "from": TEXT, "at": "z", "position": 1, "token": 3, "against": 4}),
    ("compare", {"a": "model", "b": "model", "text": TEXT}),
    ("histogram", {"model": "model", "name": f"{AT}.ffn.up.weight"}),
    ("models", {}),
    ("comparable", {"model": "model"}),
    ("parameters", {"model": "model"}),
    ("highlight", RUN),
    ("circuit", {"model": "model", "stack": "decoder", "layer": 0, "head": 0, "which": "ov"}),
    ("composition", {"model": "model", "stack": "decoder", "kind": "q"}),
    ("strongest", {"model": "model", "stack": "decoder", "layer": 0, "neuron": 3,
                   "texts": [TEXT, "fruit"], "count": 2}),
    ("edit_lens", {**RUN, "edits": [OFF], "first": 0, "count": 2}),
    ("occlusion", {**RUN, "position": 1, "token": 5, "method": "occlusion"}),
    ("occlusion", {**RUN, "position": 1, "method": "swap"}),
    ("swap", {**RUN, "position": 1, "stack": "decoder", "at": 0, "by": 6}),
)  # fmt: skip


def answer(folder: Path) -> None:
    """Answers as the page does, without its thread."""
    path = next(folder.glob("*.json"))
    name = path.stem.partition("-")[0]
    try:
        given = parsed(path.read_bytes())
    except HTTPException as error:
        raise InputError(error.detail) from None
    session = Session([str(folder / "model")])
    session._compute(answer_key(name, given), ROUTES[name], given)


@reader("page questions", read=answer, weight=6)
def questions() -> Iterator[Sample]:
    model = {f"model/{name}": content for name, content in _made.decoder_files().items()}
    for number, (name, given) in enumerate(QUESTIONS):
        file = f"{name}-{number}.json"
        yield Sample({**model, file: json.dumps(given).encode()}, (file,))


def receive(folder: Path) -> None:
    """Reads requests from a connection, in which bytes may be missing or wrong."""
    content = (folder / "request.http").read_bytes()
    connection = StrictConnection()
    try:
        for start in range(0, len(content), 1000):
            connection.receive_data(content[start : start + 1000])
            while (event := connection.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
                if isinstance(event, h11.ConnectionClosed):
                    return
            if event is h11.PAUSED:
                return
        connection.receive_data(b"")
        connection.next_event()
    except h11.RemoteProtocolError as error:
        raise InputError(f"{str(error).rstrip('.')}.") from None


@reader("page HTTP", read=receive)
def requests() -> Iterator[Sample]:
    body = json.dumps(RUN).encode()
    head = b"POST /api/read HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    yield Sample({"request.http": head + b"Content-Length: %d\r\n\r\n" % len(body) + body})
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    yield Sample({"request.http": head + b"Transfer-Encoding: chunked\r\n\r\n" + chunked})
    yield Sample({"request.http": b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n"})
