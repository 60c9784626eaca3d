"""The server by real HTTP: who is answered, who is refused, and what happens if things go wrong."""

from __future__ import annotations

import http.client
import json
import shutil
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from serving import serve

from glassformer.errors import GlassformerError
from glassformer.page import Server, Session, server
from glassformer.page.compute_thread import ComputeThread
from glassformer.page.server import LARGEST

TEXT = "time flies like an arrow"


def raw(served, head: str, body: bytes = b"", ends: bool = False) -> bytes:
    """What comes back for bytes as they are; `ends`: no more will come."""
    with socket.create_connection(("127.0.0.1", served.server.server_port), timeout=10) as line:
        line.sendall(head.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body)
        if ends:
            line.shutdown(socket.SHUT_WR)
        found = b""
        while part := line.recv(65536):
            found += part
    return found


def test_it_listens_on_this_machine_alone(decoder):
    assert decoder.server.server_address[0] == "127.0.0.1"
    assert decoder.address == f"http://127.0.0.1:{decoder.server.server_port}/"


def test_both_names_of_this_machine_are_answered(decoder):
    port = decoder.server.server_port
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", "localhost:9999"):  # a forwarded port
        status, _, _ = decoder.post("api/models", b"{}", Host=host, Origin=f"http://{host}")
        assert status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "evil.example@127.0.0.1",
        "localhost.",
        "127.0.0.1:bla",
        "[",
        "[::1]",
        "",
    ],
)
def test_other_names_are_refused(decoder, host):
    """A name that was made to point here (DNS rebinding) is not this machine's."""
    for send in (decoder.get, lambda path, **h: decoder.post("api/models", b"{}", **h)):
        status, _, body = send("", Host=host)
        assert status == 403
        assert "This is 127.0.0.1" in json.loads(body)["error"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},  # another server of this machine
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_other_pages_are_refused(decoder, headers):
    status, _, body = decoder.post("api/models", b"{}", **headers)
    assert status == 403
    assert "Only the page that is served here may ask" in json.loads(body)["error"]


def test_two_names_or_a_whole_address_are_refused(decoder):
    """What a proxy would be asked for."""
    line = "GET / HTTP/1.1\nConnection: close\nHost: 127.0.0.1"
    assert b" 200 " in raw(decoder, line)
    assert b" 403 " in raw(decoder, f"{line}\nHost: evil.example")
    assert b" 403 " in raw(decoder, line.replace("/ ", "http://evil.example/ ", 1))


def test_a_link_from_another_page_may_be_followed(decoder):
    status, _, _ = decoder.get("", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")
    assert status in (200, 404)  # 404 where the page was not built


def test_questions_are_json(decoder):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        status, _, body = decoder.post("api/models", b"{}", Content_Type=kind)
        assert (status, kind in json.loads(body)["error"]) == (415, True)
    bad = [b"", b"{", b"\xff", b'{"a": NaN}', b'{"a": 1e999}', b'{"a": 99999999999}', b"[" * 10**5]
    for body, said in (*((b, "not JSON") for b in bad), (b"[]", "a JSON object")):
        status, _, answer = decoder.post("api/models", body)
        assert status == 400 and said in json.loads(answer)["error"]


def test_a_question_that_is_too_large(decoder):
    status, _, body = decoder.post("api/read", b" " * (LARGEST + 1))
    assert status == 413
    assert "4,194,304 are allowed" in json.loads(body)["error"]


def test_a_question_that_does_not_say_its_length(decoder):
    head = "POST /api/models HTTP/1.1\nHost: localhost\nContent-Type: application/json"
    assert b" 411 " in raw(decoder, head)
    for said in ("-5", "2\nContent-Length: 4", "9" * 5000):
        assert b" 411 " in raw(decoder, f"{head}\nContent-Length: {said}")


def test_who_says_more_than_is_sent_is_answered_at_once(decoder, monkeypatch):
    """A line that stays open without a word more does not keep the answer back."""
    monkeypatch.setattr(server, "PATIENCE", 0.05)
    head = "POST /api/models HTTP/1.1\nHost: localhost\nContent-Type: application/json"
    assert b" 413 " in raw(decoder, f"{head}\nContent-Length: {10**20}", b"{}")
    found = raw(decoder, f"{head}\nContent-Length: 9", b"{}", ends=True)
    assert b"ended after 2 bytes of 9" in found


def test_what_is_not_there(decoder):
    assert decoder.refused("bla") == (404, "Nobody here knows the question 'bla'.")
    assert decoder.refused("../models")[0] == 404
    for path in (
        "nothing.js",
        "api/models",
        "../../pyproject.toml",
        "%2e%2e/server.py",
        "//etc/passwd",
    ):
        assert decoder.get(path)[0] == 404
    line = "GET /../../../../../etc/passwd HTTP/1.1\nHost: localhost\nConnection: close"
    assert b" 404 " in raw(decoder, line)


def test_other_methods_and_what_is_no_request(decoder):
    for method in ("PUT", "DELETE", "OPTIONS"):
        found = raw(decoder, f"{method} /api/models HTTP/1.1\nHost: localhost")
        assert b" 501 " in found and b'{"error":"Unsupported method' in found
    assert b"Bad request version" in raw(decoder, "bla bla bla bla")


def test_what_the_page_may_do(decoder):
    connection = http.client.HTTPConnection("127.0.0.1", decoder.server.server_port)
    connection.request("GET", "/nothing")
    headers = dict(connection.getresponse().getheaders())
    assert headers["Content-Security-Policy"].startswith("default-src 'self';")
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "Access-Control-Allow-Origin" not in headers
    connection.close()


def test_many_tabs_at_once(decoder):
    """Answers to many are those to one."""
    model = decoder.ask("models")["start"]["model"]
    texts = [f"{TEXT} {n % 5}" for n in range(40)]

    def ask(text):
        return decoder.ask("next", model=model, text=text)["positions"][-1]["candidates"][0]

    alone = {text: ask(text) for text in set(texts)}
    with ThreadPoolExecutor(12) as pool:
        assert list(pool.map(ask, texts)) == [alone[text] for text in texts]


def test_who_went_away_is_not_computed_for(decoder):
    body = json.dumps({"model": "decoder", "text": "who went away", "position": 0}).encode()
    head = (
        "POST /api/next HTTP/1.1\nHost: localhost\nContent-Type: application/json\n"
        f"Content-Length: {len(body)}"
    )
    done: list[str] = []
    session = decoder.server.session
    session.answer("wait", lambda s, asked: done.append("first") or {}, {"a": 1})
    with socket.create_connection(("127.0.0.1", decoder.server.server_port)) as line:
        line.sendall(head.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body)
    assert session.answer("gone", lambda s, a: done.append("never") or {}, {}, lambda: True) is None
    assert done == ["first"]
    assert decoder.ask("models")["models"]  # goes on


def test_who_goes_away_ends_what_is_computed_for_them(decoder):
    """Between two passes of a long work: the third one is not begun."""
    session, passes = decoder.server.session, []
    run = {"model": "decoder", "text": "an arrow goes away"}

    def long(session, asked):
        view = session.view(asked)
        for layer in range(3):
            view.capture([f"decoder.blocks.{layer}.z"])
            passes.append(layer)
        return {}

    assert session.answer("long", long, run, lambda: len(passes) == 2) is None
    assert passes == [0, 1]
    assert session.answer("long", long, run) is not None


def test_a_mistake_in_the_server_is_one_sentence(decoder, monkeypatch, capsys):
    from glassformer.page import handlers

    def broken(session, asked):
        raise RuntimeError("a wheel came off")

    monkeypatch.setitem(handlers.QUESTIONS, "broken", broken)
    status, said = decoder.refused("broken")
    assert status == 500 and "a wheel came off" in said
    assert "RuntimeError" in capsys.readouterr().err
    assert decoder.ask("models")["models"]


def test_a_port_in_use(decoder, folders):
    port = decoder.server.server_port
    with pytest.raises(GlassformerError, match=f"Port {port} .*--port 0"):
        Server(Session([str(folders["decoder"])]), port)


def test_a_model_folder_that_is_deleted(folders, tmp_path):
    """One that was loaded goes on; one that was not is named."""
    for name in ("first", "second"):
        shutil.copytree(folders["decoder"], tmp_path / name)
    for served in serve(tmp_path / "first", tmp_path / "second"):
        served.ask("read", model="first", text=TEXT)
        before = served.ask("next", model="first", text="fruit flies", position=1)
        shutil.rmtree(tmp_path / "first")
        shutil.rmtree(tmp_path / "second")
        assert served.ask("next", model="first", text=f"{TEXT} {TEXT}")["positions"]
        assert served.ask("next", model="first", text="fruit flies", position=1) == before
        status, said = served.refused("read", model="second", text=TEXT)
        assert status == 400 and f"{tmp_path / 'second'} is gone" in said


def start(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "glassformer", "open", *words, "--no-browser"]
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_the_command_serves_until_it_is_interrupted(folders):
    process = start(str(folders["decoder"]), "--port", "0", "--text", TEXT)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("Glassformer shows decoder at http://127.0.0.1:")
    port = int(line.rstrip("/\n").rsplit(":", 1)[1])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", "/api/models", "{}", {"Content-Type": "application/json"})
    assert json.load(connection.getresponse())["start"]["text"] == TEXT
    connection.close()
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert out.endswith("Closed.\n")


def test_it_can_be_closed_while_it_computes():
    begun, go_on = Event(), Event()
    worker = ComputeThread()

    def job():
        begun.set()
        go_on.wait(60)
        return "done"

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(worker.do, job)
        assert begun.wait(60)
        assert not worker.close(0.05)  # still at work
        go_on.set()
        assert waiting.result(60) == "done"
        assert worker.close(60)


def test_the_command_checks_itself(folders, glassformer):
    code, out, _ = glassformer("open", str(folders["encoder"]), "--port", "0", "--check")
    assert code == 0
    assert "It answers: BertForMaskedLM." in out


def test_the_command_says_what_is_wrong(decoder, folders, glassformer):
    port = str(decoder.server.server_port)
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
