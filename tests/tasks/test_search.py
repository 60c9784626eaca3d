"""Search results point to the right file and offset; updates and interruptions of the index."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from learned import QUESTIONS, command, finder  # noqa: F401

import glassformer as gf
from glassformer.errors import GlassformerError
from glassformer.tasks.embed import Embedder
from glassformer.tasks.search import search
from glassformer.tasks.search.index import IndexRows

ANSWERS = [*QUESTIONS.values()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return finder(tmp_path_factory.mktemp("search"))


@pytest.fixture(scope="module")
def model(folder):
    return gf.load(folder)


@pytest.fixture
def texts(tmp_path) -> Path:
    """Two answers a file, some with what is not plain ASCII before them."""
    for number in range(0, len(ANSWERS), 2):
        path = tmp_path / "texts" / f"part{number % 4}" / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        before = "中文，👩‍👩‍👧 e\u0301\r\n\r\n" if number % 4 else "\ufeff"
        path.write_bytes((before + "\r\n\r\n".join(ANSWERS[number : number + 2])).encode())
    (tmp_path / "texts" / ".hidden.txt").write_text("hidden")
    (tmp_path / "texts" / "image.png").write_bytes(b"\xff\xfe")
    return tmp_path / "texts"


def make(tmp_path, model, texts, **settings):
    index = gf.open_index(tmp_path / "index", model, texts, **{"max_length": 26, **settings})
    index.update()
    return index


@pytest.mark.parametrize("kept", ["float16", "float32"])
def test_every_question_finds_its_answer(tmp_path, model, texts, kept):
    index = make(tmp_path, model, texts, vector_dtype=kept)
    assert len(index.files) == 4
    for (question, answer), hits in zip(
        QUESTIONS.items(), index.search([*QUESTIONS], top=3), strict=True
    ):
        best = hits[0]
        assert answer in best.text
        whole = (texts / best.file).read_bytes().decode("utf-8-sig")
        assert whole[best.start : best.end] == best.text
        asked, said = model.embed([question, best.text])
        assert abs(float(asked @ said) - best.score) < (1e-5 if kept == "float32" else 2e-3)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert [hit.text for hit in index.search(question, top=3)] == [hit.text for hit in hits]


def counted(monkeypatch) -> list[str]:
    """The texts that are embedded from here on."""
    seen: list[str] = []
    real = Embedder.__call__

    def counting(self, some):
        return real(self, (seen.append(text) or text for text in some))

    monkeypatch.setattr(Embedder, "__call__", counting)
    return seen


def contents(index) -> dict[str, list]:
    rows = index.rows
    found: dict[str, list] = {}
    for first, count, name in rows.ranges():
        for row in range(first, first + count):
            found.setdefault(name, []).append((*rows.passage(row), rows.vectors[row].tobytes()))
    return found


def test_only_what_has_changed_is_embedded_again(tmp_path, model, texts, monkeypatch):
    index = make(tmp_path, model, texts)
    seen = counted(monkeypatch)
    assert index.update().unchanged == 4 and not seen
    (texts / "part0" / "0.txt").write_text("A new text about bread.", "utf-8")
    (texts / "part2" / "2.txt").unlink()
    (texts / "new.md").write_text("Something else.", "utf-8")
    changes = index.update()
    assert seen == ["Something else.", "A new text about bread."]
    assert (changes.added, changes.changed) == (["new.md"], ["part0/0.txt"])
    assert changes.removed == ["part2/2.txt"] and changes.unchanged == 2 and changes.passages == 2
    again = gf.open_index(tmp_path / "index", model)
    assert contents(again) == contents(index)
    fresh = gf.open_index(tmp_path / "fresh", model, texts, max_length=26)
    fresh.update()
    one, other = contents(again), contents(fresh)
    assert {k: [p[:3] for p in v] for k, v in one.items()} == {
        k: [p[:3] for p in v] for k, v in other.items()
    }


@pytest.mark.parametrize("after", [0, 1, 3, 5])
def test_an_interrupted_index_goes_on_where_it_was(tmp_path, model, texts, monkeypatch, after):
    """Also in the middle of a file; what comes out is the same, and nothing is embedded twice."""
    monkeypatch.setattr(search, "COMMIT", 2)
    whole = make(tmp_path, model, texts, max_length=12)
    broken = gf.open_index(tmp_path / "broken", model, texts, max_length=12)
    real, commits = IndexRows.add, 0

    def killed(self, several):
        nonlocal commits
        if commits == after:
            raise KeyboardInterrupt
        commits += 1
        real(self, several)

    monkeypatch.setattr(IndexRows, "add", killed)
    with pytest.raises(KeyboardInterrupt):
        broken.update()
    monkeypatch.setattr(IndexRows, "add", real)
    again = gf.open_index(tmp_path / "broken", model)
    before = len(again)
    assert before == 2 * after
    seen = counted(monkeypatch)
    again.update()
    assert len(seen) == len(whole) - before
    one, other = contents(again), contents(whole)
    assert {k: [p[:3] for p in v] for k, v in one.items()} == {
        k: [p[:3] for p in v] for k, v in other.items()
    }
    for question in list(QUESTIONS)[:2]:
        assert again.search(question)[0].text == whole.search(question)[0].text


def test_another_model_is_refused(tmp_path, model, texts, folder):
    index = make(tmp_path, model, texts)
    other = gf.load(folder)
    other.encoder.embed.token.weight.data[7, 3] += 1e-3  # one number is enough
    with pytest.raises(GlassformerError, match="was made with another model"):
        gf.open_index(tmp_path / "index", other)
    named = gf.open_index(tmp_path / "index")  # it knows where its model is
    question = next(iter(QUESTIONS))
    assert named.search(question) == index.search(question)


def test_files_that_cannot_be_read(tmp_path, model, texts):
    (texts / "latin.txt").write_bytes("caf\xe9".encode("latin-1"))
    (texts / "empty.txt").write_text("", "utf-8")
    index = gf.open_index(tmp_path / "index", model, texts, max_length=26)
    with pytest.raises(GlassformerError, match=r"latin\.txt:1 is not UTF-8"):
        index.update()
    changes = index.update(on_error="skip")
    assert list(changes.skipped) == ["latin.txt"] and "empty.txt" in index.files
    assert len(index.files) == 5 and index.update(on_error="skip").unchanged == 5


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"texts": "nowhere"}, "no folder nowhere with texts"),
        ({"max_length": 31}, "A passage has 1 to 30 tokens with this model, not 31"),
        ({"vector_dtype": "int8"}, "stored as float16 or float32"),
        ({"patterns": ["*.pdf"]}, r"has no files that match \*\.pdf"),
        ({"pooling": "sum"}, "no pooling 'sum'"),
    ],
)
def test_bad_settings_are_named(tmp_path, model, texts, how, said):
    with pytest.raises(GlassformerError, match=said):
        make(tmp_path, model, how.pop("texts", texts), **how)


def test_what_cannot_be_asked(tmp_path, model, texts):
    with pytest.raises(GlassformerError, match="contains no index; to make one"):
        gf.open_index(tmp_path / "none", model)
    index = gf.open_index(tmp_path / "index", model, texts, max_length=26)
    with pytest.raises(GlassformerError, match="is empty; update it first"):
        index.search("a")
    index.update()
    for question, top, said in (("", 1, "text is empty"), ("a", 0, "top must be at least 1")):
        with pytest.raises(GlassformerError, match=said):
            index.search(question, top)
    with pytest.raises(GlassformerError, match="not int"):
        index.search(5)
    assert index.search([]) == []
    good, bad = index.stream(["the cellar", "half \ud800"], top=1)
    assert len(good) == 1 and "half a character" in str(bad)
    with pytest.raises(GlassformerError, match="'max_length' is only for a new index"):
        gf.open_index(tmp_path / "index", model, max_length=9)


def test_the_command_line(command, folder, texts, tmp_path):  # noqa: F811
    index = str(tmp_path / "index")
    (texts / "latin.txt").write_bytes("caf\xe9".encode("latin-1"))
    words = ("index", index, "--model", str(folder), "--texts", str(texts), "--max-length", "26")
    code, _, said = command(*words)
    assert code == 1 and "is not UTF-8" in said.replace("\n", " ")
    code, shown, said = command("index", index, "--on-error", "skip")
    assert code == 0 and "of 4 files" in shown and "4 new, 1 skipped" in shown
    (texts / "latin.txt").unlink()
    (texts / "more.txt").write_text("More.", "utf-8")
    changes = json.loads(command("index", index, "--json")[1])
    assert changes["added"] == ["more.txt"] and changes["unchanged"] == 4 and changes["files"] == 5
    question, answer = next(iter(QUESTIONS.items()))
    code, shown, _ = command("search", index, question, "--top", "2")
    head, best, _ = shown.splitlines()
    assert code == 0 and head.split() == ["score", "where", "text"]
    assert "part0/0.txt:" in best and answer[:30] in best
    (tmp_path / "q.txt").write_text("\n".join(["", *QUESTIONS]), "utf-8")
    words = ("search", index, "--file", str(tmp_path / "q.txt"), "--json", "--top", "1")
    code, shown, said = command(*words, "--on-error", "skip")
    found = [json.loads(line) for line in shown.splitlines()]
    assert code == 0 and "8 used, 1 skipped" in said
    for (asked, right), one in zip(QUESTIONS.items(), found, strict=True):
        assert one["question"] == asked and right in one["hits"][0]["text"]
    code, _, said = command("search", str(tmp_path / "none"), "a")
    assert code == 1 and "contains no index" in said


@pytest.mark.parametrize(
    "change",
    [
        {"fingerprint": None}, {"model": 5}, {"dtype": []}, {"texts": None}, {"patterns": "*.txt"},
        {"patterns": [5]}, {"length": "26"}, {"length": 0}, {"length": True}, {"pooling": []},
        {"pooling": {}}, {"prompts": {"query": 5}}, {"modes": ["nothing"]}, {"modes": "mean"},
        {"more": 1}, {"modes": ["mean", "max"]},
    ],
    ids=str,
)  # fmt: skip
def test_a_header_that_was_changed_is_refused(tmp_path, model, texts, change):
    index = make(tmp_path, model, texts)
    path = index.rows.folder / "header.json"
    header = json.loads(path.read_text())
    place = header["pooling"] if set(change) & {"prompts", "modes", "more"} else header
    place |= change
    path.write_text(json.dumps(header))
    with pytest.raises(GlassformerError, match=r"damaged|no pooling|not the header|another width"):
        gf.open_index(index.rows.folder, model)


@pytest.mark.parametrize("pattern", ["/etc/*", "../*", "a/../../*", "a**", "x" * 300, "\ud800"])
def test_a_pattern_of_files_elsewhere_is_refused(tmp_path, model, texts, pattern):
    with pytest.raises(GlassformerError, match="is not a pattern of files in"):
        make(tmp_path, model, texts, patterns=[pattern])
