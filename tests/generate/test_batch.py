"""Batches of JSON lines: what they say, and that they go on where they stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import glassformer as gf
from glassformer.errors import GlassformerError
from glassformer.generate.batch import BatchJob

GIVEN = {"max_new_tokens": 4, "batch_size": 2}
LINES = [
    "ROMEO:\n",
    {"prompt": "KING:\n", "id": "k", "max_new_tokens": 9},
    {"prompt": [5, 6, 7], "id": "\ud800"},
    {"prompt": None, "num_beams": 2, "num_return_sequences": 2},
    "JULIET:\n",
]


@pytest.fixture(scope="module")
def bard():
    return gf.load("shakespeare")


@pytest.fixture
def paths(tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_text("\n".join(map(json.dumps, LINES)) + "\n\n")
    return source, tmp_path / "out.jsonl"


def run(bard, paths, given=GIVEN, about="", count=None):
    """All results, or as many as it takes; then it is as if the power went out."""
    batch = BatchJob(*paths, given, about)
    results = batch.run(bard.generator, batch.plan(bard.generator))
    made = [next(results) for _ in range(count)] if count else list(results)
    results.close()
    return batch, made


def said(path: Path):
    return [json.loads(row) for row in path.read_text().splitlines()]


def test_results_are_those_of_the_model_in_the_order_of_the_input(bard, paths):
    run(bard, paths)
    found = said(paths[1])
    assert [one["line"] for one in found] == [1, 2, 3, 4, 5]
    assert [one.get("id") for one in found] == [None, "k", "\ud800", None, None]
    for line, one in zip(LINES, found, strict=True):
        asked = {"prompt": line} if isinstance(line, str) else dict(line)
        prompt, _ = asked.pop("prompt"), asked.pop("id", None)
        wanted = bard.generate(prompt, **{**GIVEN, **asked})
        assert one["text"] == wanted.text and one["tokens"] == wanted.tokens
        assert [other["text"] for other in one["alternatives"]] == [
            other.text for other in wanted.alternatives
        ]


@pytest.mark.parametrize("rest", [b"", b'{"li', b'{"line": 5, "of": "12', b'{"line": 1, "of": 3}'])
def test_a_stopped_run_goes_on(bard, paths, rest):
    run(bard, paths)
    whole = paths[1].read_bytes()
    paths[1].unlink()
    _, made = run(bard, paths, count=2)
    assert len(made) == 2 and len(said(paths[1])) == 2
    with paths[1].open("ab") as file:
        file.write(rest)
    _, made = run(bard, paths)
    assert len(made) == 3
    assert paths[1].read_bytes() == whole
    _, made = run(bard, paths)
    assert made == [] and paths[1].read_bytes() == whole


def test_an_input_may_grow(bard, paths):
    run(bard, paths)
    with paths[0].open("a") as file:
        file.write('"All:\\n"\n')
    _, made = run(bard, paths)
    assert len(made) == 1 and said(paths[1])[-1]["line"] == 7  # the sixth is blank


def test_what_is_not_of_this_input_is_left_alone(bard, paths):
    run(bard, paths)
    for given, about in (({**GIVEN, "seed": 1}, ""), (GIVEN, "another model")):
        with pytest.raises(GlassformerError, match=r"out\.jsonl, line 1: this is not a result of"):
            run(bard, paths, given, about)
    for content in ("my notes", "my notes\n", '{"line": 1}\n', '{"line": 99, "of": ""}\n', "[]\n"):
        paths[1].write_text(content)
        with pytest.raises(GlassformerError, match="choose another output"):
            run(bard, paths)
        assert paths[1].read_text() == content


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"prompt": "a', "this is no JSON"),
        ("[1, 2]", 'a line is a text, or an object with a "prompt"'),
        ('{"text": "a"}', 'an object with a "prompt"'),
        ('{"prompt": 5}', "a prompt is a text, token ids or null, not 5"),
        ('{"prompt": "a", "top_kk": 5}', "no option 'top_kk'; did you mean top_k?"),
        ('{"prompt": "a", "num_beams": 0}', "num_beams must be from 1 to 10,000"),
        ('{"prompt": ""}', "The prompt is empty"),
        ('{"prompt": [5000]}', "has the token 5000"),
    ],
)
def test_malformed_lines_are_named_before_anything_is_computed(bard, paths, line, message):
    paths[0].write_text(f'"fine"\n{line}\n')
    with pytest.raises(GlassformerError) as caught:
        run(bard, paths)
    assert str(caught.value).startswith(f"{paths[0]}, line 2: ") and message in str(caught.value)
    assert not paths[1].exists()


def test_files_that_cannot_be(bard, paths, tmp_path):
    source, target = paths
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "latin").write_bytes(b'"\xe9"')
    for pair, message in (
        ((source, source), "both the input and the output"),
        ((tmp_path / "nowhere", target), "nowhere cannot be read: No such file"),
        ((tmp_path / "empty", target), "empty has no lines"),
        ((tmp_path / "latin", target), "latin cannot be read: it is not UTF-8"),
        ((source, tmp_path / "no" / "out"), "There is no folder"),
        ((source, tmp_path), "is no regular file; name another output"),
    ):
        with pytest.raises(GlassformerError, match=message):
            run(bard, pair)
