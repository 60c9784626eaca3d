"""The command `glassformer open`: its address, its end, and its errors."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest

from glassformer.interrupts import SIGNALS

TEXT = "time flies like an arrow"


def start(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "glassformer", "open", *words, "--no-browser"]
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def port_of(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("Glassformer shows decoder at http://127.0.0.1:")
    return int(line.rstrip("/\n").rsplit(":", 1)[1])


@pytest.mark.parametrize("sent", SIGNALS)
def test_it_serves_until_a_signal(folders, sent):
    """Whatever its clients do: connections that are idle, half a head, half a body, a stream."""
    process = start(str(folders["decoder"]), "--port", "0", "--text", TEXT)
    port = port_of(process)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", "/api/models", "{}", {"Content-Type": "application/json"})
    assert json.load(connection.getresponse())["start"]["text"] == TEXT
    post = "POST /api/read HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    body = json.dumps({"model": "decoder", "text": TEXT})
    pieces = [
        "",
        "GET / HT",
        f"{post}Content-Length: 10\r\n\r\n{{",
        f"{post}Accept: text/event-stream\r\nContent-Length: {len(body)}\r\n\r\n{body}",
        "GARBAGE\r\n\r\n",
    ]
    with ExitStack() as stack:
        for piece in pieces:
            line = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            line.sendall(piece.encode())
        time.sleep(0.3)
        began = time.monotonic()
        process.send_signal(sent)
        out, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert out.endswith("Closed.\n")
    assert time.monotonic() - began < 10
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=10)


def test_it_checks_itself(folders, glassformer):
    code, out, _ = glassformer("open", str(folders["encoder"]), "--port", "0", "--check")
    assert code == 0
    assert "It answers: BertForMaskedLM." in out


def test_it_says_what_is_wrong(decoder, folders, glassformer):
    port = str(decoder.server.port)
    code, _, errors = glassformer("open", str(folders["decoder"]), "--port", port)
    assert (code, f"Port {port}" in errors) == (1, True)
    code, _, errors = glassformer("open", "nowhere")
    assert (code, "the zoo has: " in errors) == (1, True)


def test_the_usual_port_is_not_a_must(folders, glassformer):
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does
        try:
            taken.bind(("127.0.0.1", 8700))
            taken.listen()
        except OSError:
            pass  # somebody has it already
        code, out, _ = glassformer("open", str(folders["decoder"]), "--check")
    assert code == 0 and ":8700/" not in out
