"""tools/names.py finds old names and old words, and none in the repository."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent.parent / "tools"))
from names import ROOT, names, words

OFFENCES = {  # a line of code, and what the report says of it
    "class Knobs: ...": "class Knobs has an old name",
    "class Twice: ...\nclass Twice: ...": "class Twice is defined 2 times",
    "def read_once(): ...": "read_once is an old name",
    "def f(source_mask): ...": "source_mask is an old name",
    "class A:\n    roomy: int = 0": "roomy is an old name",
    "both_ways = True": "both_ways is an old name",
    "print(one.roomy)": "roomy is an old name",
}
PROSE = {  # a line of a module, of a page of the documentation, or of the page's sources
    "glassformer/a.py": '"""The desk of the package."""',
    "glassformer/b.py": "x = 1  # a knob of the generator",
    "glassformer/c.py": 'raise ValueError(f"How {x} comes about is not told here.")',
    "docs/train.md": "The rooms of the package.",
    "README.md": "Every door leads to a room.",
    "page/src/text/en.ts": 'export const en = "turn the knobs";',
}


@pytest.fixture
def repository(tmp_path):
    for folder in ("glassformer", "docs", "page/src/text"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize("code", OFFENCES)
def test_an_old_name_is_reported(repository, code):
    (repository / "glassformer" / "module.py").write_text(code)
    assert [found for found in names(repository) if found.endswith(OFFENCES[code])]


def test_a_module_with_an_old_name_is_reported(repository):
    (repository / "glassformer" / "unigrams.py").touch()
    assert list(names(repository)) == ["unigrams.py: the module has an old name"]


@pytest.mark.parametrize("path", PROSE)
def test_an_old_word_is_reported(repository, path):
    (repository / path).write_text(PROSE[path])
    assert [found for found in words(repository) if found.startswith(path)]


def test_quotes_and_code_may_contain_the_words(repository):
    (repository / "docs" / "a.md").write_text("He said `the room`.\n```\nopen the door\n```\n")
    assert not list(words(repository))


def test_the_repository_has_neither():
    assert not [*names(ROOT), *words(ROOT)]
