"""Every code block of every page runs as pasted and prints the documented output."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from agreement import agree
from blocks import WrongError, blocks_of, commands_of, run, shell, understand, written
from own import own_files
from quick import quick

ROOT = Path(__file__).parent.parent.parent
DOCS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))
PAGES = ["README.md", "README.zh.md", *DOCS]
ELSEWHERE = {"docs/add-a-family.md"}  # test_add_a_family.py: in a copy of the package
NOT_RUN = {  # whoever adds one here has thought about running it
    ("docs/architecture.md", "a drawing"): 1,
    ("docs/models.md", "a card's first lines"): 1,
    ("docs/models.md", "it needs the network"): 3,
    ("docs/recipes.md", "its texts are not in the repository, and a run takes a GPU"): 3,
    ("docs/transcribe.md", "it needs the network"): 1,
    ("docs/transcribe.md", "what the commands above print"): 1,
    ("docs/tasks.md", "the benchmark's files are not in the repository"): 1,
    ("docs/vectors.md", "it needs jieba"): 1,
    ("docs/train.md", "times differ between machines, and six runs are too many"): 1,
    ("docs/train.md", "nine runs are too many"): 1,
    ("docs/train.md", "its texts are not in the repository, and a run takes a GPU"): 1,
}


def text_of(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


@pytest.mark.parametrize("page", quick(page for page in PAGES if page not in ELSEWHERE))
def test_the_blocks_run_in_their_order_and_print_what_is_shown(page, tmp_path, monkeypatch):
    own_files(page, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GLASSFORMER_DOWNLOAD", "")  # --download sets it for the process
    told = page.startswith(("docs/course/", "docs/commands"))  # there all that is printed is shown
    for block in run(text_of(page), page):
        if block.shown is not None or told:
            shown = block.shown or ""
            assert agree(shown, block.printed), f"{block.code}\nprints\n{block.printed}"


def test_what_is_not_run_says_why_and_is_little():
    found: dict[tuple[str, str], int] = {}
    for page in PAGES:
        for block in blocks_of(text_of(page)):
            if block.reason:
                found[page, block.reason] = found.get((page, block.reason), 0) + 1
    assert found == NOT_RUN


# --- the mechanism itself ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("page", "wrong"),
    [
        ("```js\nalert()\n```\n", "'js' is none of"),
        ("```\nanything\n```\n", "'' is none of"),
        ("```python\nx = 1\n", "lines begin with ```"),
        ("- a list\n  ```js\n  alert()\n  ```\n", "lines begin with ```"),
        ("```text\nfrom nowhere\n```\n", "no block before it prints"),
        ("```python\nx = 1\n```\n\nwords\n\n```text\n1\n```\n", "no block before it prints"),
    ],
)
def test_a_block_of_no_known_kind_is_an_error(page, wrong):
    with pytest.raises(WrongError, match=re.escape(wrong)):
        blocks_of(page)


@pytest.mark.parametrize(
    "line",
    [
        "curl https://example.org",
        "make nothing-of-the-kind",
        "pip install 'glassformer[nothing]'",
        "python tools/nothing.py",
        "glassformer inspect no-such-model",
        "torchrun -m glassformer train --nothing",
    ],
)
def test_a_command_that_cannot_work_is_an_error(line):
    (words,) = commands_of(line)
    with pytest.raises(Exception, match=r"no |No "):
        shell(words)


def test_a_command_that_is_not_run_must_still_be_understood():
    assert (
        understand(["glassformer", "train", "recipes/shakespeare.toml", "train.max_steps=3"]) == ""
    )
    for words in (["--nothing"], ["train.stepps=3"]):
        with pytest.raises(Exception, match=r"nothing|stepps"):
            understand(["glassformer", "train", "recipes/shakespeare.toml", *words])


def test_blocks_share_a_session_and_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (
        '```toml title="a/recipe.toml"\n[train]\nmax_steps = 3\n```\n'
        "```python\nx = open('a/recipe.toml').read().count('max_steps')\n```\n"
        "```python\nprint(x)\n```\n\n```text\n2\n```\n"
        '```sh\necho "one  # two" | cat > said.txt   # a comment\ncat said.txt\n```\n'
    )
    with pytest.raises(WrongError, match="cat"):
        run(page, "page")  # cat reads files
    page = page.replace("| cat ", "")
    assert [block.printed for block in run(page, "page")] == ["", "", "1\n", "one  # two\n"]
    corrected = written(page, "page")
    assert "```text\n1\n```" in corrected and "```text\none  # two\n```" in corrected
    assert written(corrected, "page") == corrected
