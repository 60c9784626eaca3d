"""The server over HTTP: accepted and refused requests, and failures."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Event

import pytest
from serving import Served, received, serve

from glassformer.errors import GlassformerError
from glassformer.page import Server, Session, handlers, limits
from glassformer.page.http_protocol import PageProtocol

TEXT = "time flies like an arrow"
POST = "POST /api/models HTTP/1.1\nHost: localhost\nContent-Type: application/json"


def status_of(response: bytes) -> int:
    return int(response.split(maxsplit=2)[1])


def sentence_of(response: bytes) -> str:
    """The sentence of a refusal, which has the safe headers, too."""
    head, _, body = response.partition(b"\r\n\r\n")
    assert b"x-content-type-options: nosniff" in head.lower()
    return json.loads(body)["error"]


# --- who is answered ------------------------------------------------------------------------------


def test_it_listens_on_this_machine_alone(decoder):
    port = decoder.server.port
    assert decoder.address == f"http://127.0.0.1:{port}/"
    with pytest.raises(ConnectionRefusedError):  # another address of the same machine
        socket.create_connection(("127.0.0.2", port), timeout=10)


def test_both_names_of_this_machine_are_answered(decoder):
    port = decoder.server.port
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
@pytest.mark.parametrize("path", ["api/models", "api/cancel"])
def test_other_pages_are_refused(decoder, headers, path):
    status, _, body = decoder.post(path, b"{}", **headers)
    assert status == 403
    assert "Only the page that is served here may ask" in json.loads(body)["error"]


def test_two_origins_are_refused(decoder):
    own = f"Origin: http://localhost:{decoder.server.port}"
    head = f"{POST.replace('localhost', f'localhost:{decoder.server.port}')}\nContent-Length: 2"
    closing = "Connection: close"
    assert status_of(decoder.raw(f"{head}\n{own}\n{closing}", b"{}")) == 200
    two = decoder.raw(f"{head}\n{own}\nOrigin: http://evil.example\n{closing}", b"{}")
    assert status_of(two) == 403


def test_two_names_or_a_whole_address_are_refused(decoder):
    """What a proxy would be asked for."""
    line = "GET / HTTP/1.1\nConnection: close\nHost: 127.0.0.1"
    assert status_of(decoder.raw(line)) == 200
    assert status_of(decoder.raw(f"{line}\nHost: evil.example")) == 400
    assert status_of(decoder.raw(line.replace("/ ", "http://evil.example/ ", 1))) == 403
    assert status_of(decoder.raw(line.replace("/ ", "http://127.0.0.1/ ", 1))) == 403
    assert status_of(decoder.raw("GET / HTTP/1.1\nConnection: close")) == 400  # no name at all
    assert status_of(decoder.raw("GET / HTTP/1.0")) == 403


def test_a_link_from_another_page_may_be_followed(decoder):
    status, _, _ = decoder.get("", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")
    assert status in (200, 404)  # 404 where the page was not built


# --- questions ------------------------------------------------------------------------------------


def test_questions_are_json(decoder):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        status, _, body = decoder.post("api/models", b"{}", Content_Type=kind)
        assert (status, kind in json.loads(body)["error"]) == (415, True)
    bad = [b"", b"{", b"\xff", b'{"a": NaN}', b'{"a": 1e999}', b'{"a": 99999999999}', b"[" * 10**5]
    for body, said in (*((b, "not JSON") for b in bad), (b"[]", "a JSON object")):
        status, _, answer = decoder.post("api/models", body)
        assert status == 400 and said in json.loads(answer)["error"]


def test_nesting_of_any_depth_is_answered(decoder):
    for depth in (100, 900, 940, 970, 990, 1000, 1100):
        status, _, _ = decoder.post("api/models", b'{"a":' + b"[" * depth + b"]" * depth + b"}")
        assert status in (200, 400)


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
    assert status_of(decoder.raw(line)) == 404


def test_other_methods_and_what_is_no_request(decoder):
    for method in ("PUT", "DELETE", "OPTIONS", "BLA"):
        head = f"{method} /api/models HTTP/1.1\nHost: localhost\nConnection: close"
        found = decoder.raw(head)
        assert status_of(found) == 405
        assert sentence_of(found) == "Only POST is answered here."
    for wrong in ("bla bla bla bla", "\0", "GET / HTTP/1.1\nHost localhost"):
        found = decoder.raw(wrong)
        assert status_of(found) == 400 and sentence_of(found)


def test_what_the_page_may_do(decoder):
    connection = http.client.HTTPConnection("127.0.0.1", decoder.server.port)
    for path in ("/", "/nothing"):
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        headers = answer.headers
        assert headers["Content-Security-Policy"].startswith("default-src 'self';")
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "Access-Control-Allow-Origin" not in headers
        assert "Server" not in headers
    connection.close()


def test_a_mistake_in_the_server_is_one_sentence(decoder, monkeypatch, capsys):
    def broken(session, asked):
        raise RuntimeError("a wheel came off")

    monkeypatch.setitem(handlers.ROUTES, "broken", broken)
    status, said = decoder.refused("broken")
    assert status == 500 and "a wheel came off" in said
    assert "RuntimeError" in capsys.readouterr().err
    assert decoder.ask("models")["models"]


# --- where a request ends -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("Content-Length: 2\nTransfer-Encoding: chunked", b"2\r\n{}\r\n0\r\n\r\n"),
        ("Transfer-Encoding: chunked\nContent-Length: 2", b"{}"),
        ("Content-Length: 2\nContent-Length: 4", b"{}"),
        ("Content-Length: 2\nContent-Length: 2", b"{}"),
        ("Content-Length: 2, 2", b"{}"),
        ("Content-Length: 2\n ,2", b"{}"),
        ("Content-Length: +2", b"{}"),
        ("Content-Length: -2", b"{}"),
        ("Content-Length: 0x2", b"{}"),
        ("Content-Length:", b"{}"),
        ("Content-Length : 2", b"{}"),
        ("Transfer-Encoding: gzip, chunked", b"2\r\n{}\r\n0\r\n\r\n"),
        ("Transfer-Encoding: identity", b"{}"),
        ("Transfer-Encoding: chunked\nTransfer-Encoding: chunked", b"2\r\n{}\r\n0\r\n\r\n"),
        ("Transfer-Encoding: chunked", b"zz\r\n{}\r\n0\r\n\r\n"),
        ("Transfer-Encoding: chunked", b"-2\r\n{}\r\n0\r\n\r\n"),
        ("Transfer-Encoding: chunked", b"2\r\n{}XX0\r\n\r\n"),
        ("Transfer-Encoding: chunked", b"fffffffffffffffffffffff\r\n{}\r\n0\r\n\r\n"),
        ("X: a\n folded\nContent-Length: 2", b"{}"),
    ],
)
def test_a_length_that_can_be_read_in_two_ways_is_refused(decoder, head, body):
    found = decoder.raw(f"{POST}\n{head}", body + b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert status_of(found) == 400
    assert sentence_of(found).endswith(".")  # and nothing comes after it


def test_chunks_need_http_1_1(decoder):
    old = POST.replace("1.1", "1.0")
    found = decoder.raw(f"{old}\nTransfer-Encoding: chunked", b"2\r\n{}\r\n0\r\n\r\n")
    assert status_of(found) == 400


def test_a_question_in_chunks(decoder):
    head = f"{POST}\nTransfer-Encoding: chunked\nConnection: close"
    assert status_of(decoder.raw(head, b"1\r\n{\r\n1\r\n}\r\n0\r\n\r\n")) == 200


def test_a_question_that_does_not_say_its_length(decoder):
    found = decoder.raw(f"{POST}\nConnection: close")
    assert (status_of(found), "how long it is" in sentence_of(found)) == (411, True)


def test_requests_one_behind_the_other(decoder):
    """Two requests in one piece (pipelining) are answered in order."""
    last = f"{POST}\nConnection: close\nContent-Length: 2\n\n{{}}".replace("\n", "\r\n")
    found = decoder.raw(f"{POST}\nContent-Length: 2", b"{}" + last.encode())
    assert found.count(b"HTTP/1.1 200 OK") == 2


# --- sizes ----------------------------------------------------------------------------------------


def test_a_question_that_is_too_large(decoder):
    status, _, body = decoder.post("api/read", b" " * (limits.MAX_BODY_BYTES + 1))
    assert status == 413
    assert "4,194,304 are allowed" in json.loads(body)["error"]


def test_chunks_that_are_too_large_together(decoder, monkeypatch):
    monkeypatch.setattr(limits, "MAX_BODY_BYTES", 1000)
    chunk = b"64\r\n" + b" " * 100 + b"\r\n"
    found = decoder.raw(f"{POST}\nTransfer-Encoding: chunked", chunk * 20)
    assert (status_of(found), "1,000 are allowed" in sentence_of(found)) == (413, True)


@pytest.mark.parametrize("sent", [2 * limits.MAX_HEAD_BYTES, 4 * limits.MAX_HEAD_BYTES])
def test_headers_that_are_too_large(decoder, sent):
    found = decoder.raw(f"GET / HTTP/1.1\nHost: localhost\nX: {'x' * sent}")
    assert status_of(found) == 431 and sentence_of(found)


def test_who_says_more_than_is_sent_is_answered_at_once(decoder):
    """A line that stays open without a word more does not keep the answer back."""
    began = time.monotonic()
    with decoder.connect() as line:
        line.sendall(f"{POST}\nContent-Length: {10**15}\n\n{{}}".replace("\n", "\r\n").encode())
        assert status_of(received(line)) == 413
        assert time.monotonic() - began < limits.BODY_SECONDS / 2
    found = decoder.raw(f"{POST}\nContent-Length: 9", b"{}", ends=True)
    assert (status_of(found), "before it was complete" in sentence_of(found)) == (400, True)


# --- times ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent", [b"G", b"POST /api/models HTTP/1.1\r\nHost: localhost\r\nX", b"\r\n", b"GET / HTTP/1.1"]
)
def test_half_a_head_is_given_up(decoder, monkeypatch, sent):
    monkeypatch.setattr(limits, "HEAD_SECONDS", 0.2)
    with decoder.connect() as line:
        line.sendall(sent)
        found = received(line)
    if sent.strip():
        assert (status_of(found), "did not arrive in time" in sentence_of(found)) == (408, True)


def test_half_a_body_is_given_up(decoder, monkeypatch):
    monkeypatch.setattr(limits, "BODY_SECONDS", 0.2)
    for head in ("Content-Length: 5", "Transfer-Encoding: chunked"):
        found = decoder.raw(f"{POST}\n{head}", b"2")
        assert (status_of(found), "did not arrive in time" in sentence_of(found)) == (408, True)


def test_half_a_body_of_a_refused_request_is_given_up(decoder, monkeypatch):
    monkeypatch.setattr(limits, "BODY_SECONDS", 0.2)
    head = f"{POST.replace('localhost', 'evil.example')}\nContent-Length: 5"
    with pytest.raises(ConnectionResetError):
        found = decoder.raw(head, b"{}")
        assert status_of(found) == 403
        raise ConnectionResetError  # closed without a reset


def test_a_letter_at_a_time_is_given_up(decoder, monkeypatch):
    """Slow-loris: every byte comes soon, and the head never ends."""
    monkeypatch.setattr(limits, "HEAD_SECONDS", 0.5)
    monkeypatch.setattr(limits, "LINGER_SECONDS", 0.1)
    with decoder.connect() as line:
        line.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ")
        began = time.monotonic()
        with pytest.raises(OSError):
            while time.monotonic() - began < 10:
                line.sendall(b"x")
                time.sleep(0.05)
    assert time.monotonic() - began < 5


def test_a_second_request_has_its_own_time(decoder, monkeypatch):
    monkeypatch.setattr(limits, "HEAD_SECONDS", 0.3)
    connection = http.client.HTTPConnection("127.0.0.1", decoder.server.port)
    for _ in range(2):
        connection.request("POST", "/api/models", "{}", {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.read() and answer.status == 200
        time.sleep(0.5)  # a connection may be idle for longer than a head may take
    connection.sock.sendall(b"GET / HTTP/1.1")
    assert status_of(received(connection.sock)) == 408
    connection.close()


def test_a_connection_without_a_request_is_closed(decoder, monkeypatch):
    """A browser opens some in advance: not a word is said."""
    monkeypatch.setattr(limits, "HEAD_SECONDS", 0.2)
    with decoder.connect() as line:
        assert received(line) == b""


@pytest.fixture
def unshared(folders) -> Iterator[Served]:
    """A server that no browser of another test has open connections to."""
    yield from serve(folders["decoder"])


def test_who_does_not_read_is_given_up(unshared, monkeypatch):
    given_up, plain = Event(), PageProtocol.connection_lost

    def lost(self, error):
        plain(self, error)
        given_up.set()

    monkeypatch.setattr(PageProtocol, "connection_lost", lost)
    monkeypatch.setattr(limits, "SEND_SECONDS", 0.3)
    monkeypatch.setitem(handlers.ROUTES, "large", lambda session, asked: {"a": "a" * 2**25})
    head = f"{POST.replace('models', 'large')}\nContent-Length: 2\n\n{{}}".replace("\n", "\r\n")
    with unshared.connect() as line:
        line.sendall(head.encode())
        assert given_up.wait(20)
        assert len(received(line)) < 2**25


# --- numbers --------------------------------------------------------------------------------------


def test_many_tabs_at_once(decoder):
    """Answers to many are those to one."""
    model = decoder.ask("models")["start"]["model"]
    texts = [f"{TEXT} {n % 5}" for n in range(40)]

    def ask(text):
        return decoder.ask("next", model=model, text=text)["positions"][-1]["candidates"][0]

    alone = {text: ask(text) for text in set(texts)}
    with ThreadPoolExecutor(12) as pool:
        assert list(pool.map(ask, texts)) == [alone[text] for text in texts]


def test_two_hundred_requests_at_once_are_answered(decoder):
    body = [json.dumps({"model": "decoder", "text": f"{TEXT} {n}"}).encode() for n in range(200)]
    head = POST.replace("models", "read") + "\nConnection: close\nContent-Length: "
    with ExitStack() as stack:
        lines = [stack.enter_context(decoder.connect()) for _ in body]
        for line, one in zip(lines, body, strict=True):
            line.sendall(f"{head}{len(one)}\n\n".replace("\n", "\r\n").encode() + one)
        found = [received(line) for line in lines]
    assert [status_of(one) for one in found] == [200] * 200


def test_connections_above_the_limit_are_refused(unshared, monkeypatch):
    monkeypatch.setattr(limits, "MAX_CONNECTIONS", 8)
    monkeypatch.setattr(limits, "MAX_REFUSED", 4)
    with ExitStack() as stack:
        lines = [stack.enter_context(unshared.connect()) for _ in range(8)]
        time.sleep(0.3)  # until all are accepted
        for _ in range(4):
            found = received(stack.enter_context(unshared.connect()))
            assert (status_of(found), b"retry-after: 1" in found.lower()) == (503, True)
            assert "8 open connections" in sentence_of(found)
        more = stack.enter_context(unshared.connect())
        with pytest.raises(ConnectionResetError):
            received(more)
            raise ConnectionResetError  # closed without a reset
        lines[0].sendall(b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert status_of(lines[0].recv(65536)) == 404
    ends = time.monotonic() + 20  # by then it has seen that the others are closed
    while unshared.post("api/models", b"{}")[0] == 503:
        assert time.monotonic() < ends
    assert unshared.ask("models")["models"]


# --- models and ports -----------------------------------------------------------------------------


def test_a_port_in_use(decoder, folders):
    port = decoder.server.port
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
