"""Each chapter of the course has all required parts. (test_blocks.py runs them.)"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

ROOT = Path(__file__).parent.parent.parent
COURSE = ROOT / "docs" / "course"
CHAPTERS = sorted(path.name for path in COURSE.glob("[0-9]*.md"))


def text_of(name: str) -> str:
    return (COURSE / name).read_text("utf-8")


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_is_short_and_compares_with_the_model(name):
    text = text_of(name)
    code = "".join(re.findall(r"```python\n(.*?)```", text, re.S))
    assert len(text.splitlines()) <= 160
    assert "model.look(" in code and "assert " in code
    exercises = text.partition("## Exercises")[2].partition("## ")[0]
    assert 2 <= len(re.findall(r"^\d\. ", exercises, re.M)) <= 4


def test_there_are_ten_chapters_each_in_the_index_with_answers():
    assert [name[:2] for name in CHAPTERS] == [f"{number:02}" for number in range(1, 11)]
    assert re.findall(r"^\| \d+ \| \[.*?\]\((.*?)\)", text_of("index.md"), re.M) == CHAPTERS
    for name in CHAPTERS:
        asked = text_of(name).partition("## Exercises")[2].partition("## ")[0]
        answered = text_of("answers.md").partition(f"]({name})")[2].partition("\n## ")[0]
        numbers = re.compile(r"^(\d)\. ", re.M)
        assert numbers.findall(asked) == numbers.findall(answered), name


def panels() -> set[str]:
    return {view.parent.name for view in (ROOT / "page/src/panels").glob("*/Panel.svelte")}


@pytest.mark.parametrize("name", ["index.md", *CHAPTERS, "answers.md"])
def test_links_lead_somewhere(name):
    links = re.findall(r"\]\((.*?)\)", text_of(name))
    pages = [urlsplit(link) for link in links if link.startswith("http://127.0.0.1:8700/?")]
    for link in links:
        assert link.startswith("http://127.0.0.1:8700/?") or (COURSE / link).is_file(), link
    for page in pages:
        assert parse_qs(page.query)["panel"][0] in panels()
    assert pages or name not in CHAPTERS


def test_the_page_opens_as_chapters_say(glassformer):
    opened = re.compile(r"`(glassformer open (?:shakespeare|letters)(?: --text.*?)?)`")
    commands = set(opened.findall("".join(map(text_of, ["index.md", *CHAPTERS]))))
    assert len(commands) == 4
    for command in commands:
        words = shlex.split(command)[1:]
        code, said, _ = glassformer(*words, "--port", "0", "--check")
        assert code == 0 and said.startswith(f"Glassformer shows {words[1]} at ")
