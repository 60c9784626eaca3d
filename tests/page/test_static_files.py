"""The page's files over HTTP: types, compression, ETags."""

from __future__ import annotations

import gzip
import http.client
import os

import pytest

from glassformer.page.static_files import STATIC, accepts_gzip

FILES = {
    "index.html": "text/html; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "page.css": "text/css; charset=utf-8",
}


@pytest.fixture
def fetch(decoder):
    connection = http.client.HTTPConnection("127.0.0.1", decoder.server.port, timeout=20)

    def send(path, method="GET", **headers):
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, headers=given)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()

    yield send
    connection.close()


@pytest.mark.parametrize("name", FILES)
def test_files_have_their_types_and_bytes(fetch, name):
    plain = (STATIC / name).read_bytes()
    status, headers, body = fetch(f"/{name}")
    assert (status, headers["Content-Type"], body) == (200, FILES[name], plain)
    assert headers["Content-Encoding"] is None
    assert headers["Content-Length"] == str(len(plain))
    status, headers, body = fetch(f"/{name}", Accept_Encoding="br, gzip")
    assert (status, headers["Content-Encoding"]) == (200, "gzip")
    assert gzip.decompress(body) == plain
    assert headers["Vary"] == "Accept-Encoding"
    assert headers["Cache-Control"] == "no-cache"  # a browser asks whether it has changed


def test_the_page_is_sent_compressed(fetch):
    _, _, body = fetch("/page.js", Accept_Encoding="gzip")
    assert len(body) < (STATIC / "page.js").stat().st_size / 2


def test_the_first_page_has_no_name(fetch):
    assert fetch("/")[2] == fetch("/index.html")[2]


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_what_a_browser_has_is_not_sent_again(fetch, encoding):
    tag = fetch("/page.js", Accept_Encoding=encoding)[1]["ETag"]
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        status, headers, body = fetch("/page.js", Accept_Encoding=encoding, If_None_Match=known)
        assert (status, headers["ETag"], body) == (304, tag, b"")
    other = fetch("/page.css", Accept_Encoding=encoding, If_None_Match=tag)
    assert other[0] == 200 and other[2]


def test_head_has_the_headers_alone(fetch):
    for path, status in (("/page.js", 200), ("/nothing.js", 404)):
        got, there = fetch(path), fetch(path, "HEAD")
        assert (there[0], there[2]) == (status, b"")
        for name in ("Content-Length", "Content-Type", "ETag"):
            assert got[1][name] == there[1][name]


def test_a_new_build_is_noticed(fetch, tmp_path, monkeypatch):
    monkeypatch.setattr("glassformer.page.static_files.STATIC", tmp_path)
    status, _, body = fetch("/")
    assert status == 404 and b"make page" in body
    tags = []
    for time, text in enumerate(("one", "two")):
        (tmp_path / "index.html").write_text(text, "utf-8")
        os.utime(tmp_path / "index.html", (time, time))
        _, headers, body = fetch("/")
        assert body.decode() == text
        tags.append(headers["ETag"])
    assert tags[0] != tags[1]


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        ("", False),
        ("gzip", True),
        ("deflate, GZIP;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip; q=0.00", False),
        ("br", False),
        ("x-gzip-not", False),
    ],
)
def test_who_reads_gzip(header, accepted):
    assert accepts_gzip(header) is accepted
