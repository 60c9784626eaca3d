"""The fenced blocks of a page: run in their order, as a reader pastes them.

    python tools/blocks.py docs/commands.md docs/course/*.md

runs pages and writes what their blocks print beneath them. For when help or the built-in model has
changed: read the prose again, too. `tests/docs/test_blocks.py` runs all pages and compares.

| block | what is done |
|---|---|
| `python` | run, in one session a page |
| `sh` | `glassformer` in this process, in the page's folder; other programs as PROGRAMS says |
| `toml` | read as a recipe |
| `text` | what the block before it prints |
| with `title="NAME"` | the file of that name |

`<!-- not run: WHY -->` before a block: Python is compiled, and commands are understood, no more.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<reason>.+?) -->\n+)?"
    r'^```(?P<kind>\w*)(?: title="(?P<title>.+?)")?\n(?P<code>.*?)^```$',
    re.M | re.S,
)
KINDS = ("python", "sh", "toml", "text")
PLAIN = {"COLUMNS": "80", "TERM": "dumb"}
TYPED = "ROMEO:\n"  # by whoever is asked for a line
AROUND = {"model": {"base": "zoo:shakespeare"}, "data": {"train": "text.txt"}}  # of a table alone


class WrongError(AssertionError):
    """A block that does not do what the page says."""


class Terminal(io.TextIOWrapper):
    """What a command prints at a terminal, without escape codes: columns instead of tabs."""

    def isatty(self) -> bool:
        return True


@dataclass(frozen=True)
class Block:
    """`shown` is the text beneath it; `printed` what running it gave."""

    kind: str
    code: str
    line: int
    title: str = ""
    reason: str = ""
    shown: str | None = None
    printed: str = ""


def blocks_of(text: str) -> list[Block]:
    """All blocks but those that show output, which belong to the one before."""
    found: list[Block] = []
    fences = len(re.findall(r"^ *```", text, re.M))
    matches = list(BLOCK.finditer(text))
    if fences != 2 * len(matches):
        raise WrongError(f"{fences} lines begin with ```, and {len(matches)} blocks were read")
    end = 0
    for match in matches:
        named = match.groupdict(default="")
        line = text[: match.start("code")].count("\n")
        if named["kind"] not in KINDS:
            raise WrongError(f"line {line}: {named['kind']!r} is none of {', '.join(KINDS)}")
        if named["kind"] == "text" and not named["reason"]:
            if not found or text[end : match.start()].strip():
                raise WrongError(f"line {line}: text that no block before it prints")
            found[-1] = replace(found[-1], shown=named["code"])
        else:
            found.append(Block(line=line, **named))
        end = match.end()
    return found


# --- running -----------------------------------------------------------------------------------


def run(text: str, name: str) -> list[Block]:
    """All blocks of a page in their order, in the folder where this process stands."""
    place: dict[str, object] = {"__name__": "__main__"}
    with settings_kept():
        return [replace(block, printed=_run(block, name, place)) for block in blocks_of(text)]


def _run(block: Block, name: str, place: dict[str, object]) -> str:
    if block.title:
        path = Path(block.title)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.code, "utf-8")
    try:
        if block.kind == "python":
            code = compile("\n" * block.line + block.code, name, "exec")
            if block.reason or block.title:
                return ""
            with redirect_stdout(io.StringIO()) as printed:
                exec(code, place)
            return printed.getvalue()
        if block.kind == "sh":
            do = understand if block.reason else shell
            return "".join([do(command) for command in commands_of(block.code)])
        if block.kind == "toml":
            from glassformer.train.recipe import read_recipe

            read_recipe(AROUND | tomllib.loads(block.code))
    except BaseException as error:
        error.add_note(f"in the block of line {block.line} of {name}")
        raise
    return ""


@contextmanager
def settings_kept() -> Iterator[None]:
    """Pages turn gradients off and say how tensors are printed, as a reader would."""
    import torch

    learns = torch.is_grad_enabled()
    try:
        yield
    finally:
        torch.set_grad_enabled(learns)
        torch.set_printoptions(profile="default")


def commands_of(code: str) -> list[list[str]]:
    """The words of each line, without comments; pipes and redirections are words of their own."""
    found = []
    for line in code.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|>")
        lexer.whitespace_split = True
        found.append(list(lexer))
    return [words for words in found if words]


def shell(words: Sequence[str], output: type[io.TextIOWrapper] = Terminal) -> str:
    """What a line prints. Knows pipes from echo and cat, and `> file` behind all."""
    if ">" in words:
        at = words.index(">")
        Path(words[at + 1]).write_text(shell(words[:at], io.TextIOWrapper), "utf-8")
        return ""
    first, stdin = list(words), TYPED
    if "|" in words:
        at = words.index("|")
        first, stdin = list(words[at + 1 :]), shell(words[:at])
    program, *rest = first
    if program == "glassformer":
        code, said, complained = glassformer(rest, stdin, output)
        if code:
            raise WrongError(f"{shlex.join(words)} ended with {code}: {complained}")
        return said
    if program not in PROGRAMS or "|" in words:
        raise WrongError(f"{program} is no program that pages may use so: {', '.join(PROGRAMS)}")
    return PROGRAMS[program](rest)


def glassformer(
    words: Sequence[str], stdin: str = "", output: type[io.TextIOWrapper] = Terminal
) -> tuple[int, str, str]:
    """The command line in this process: the exit code and both outputs. The page is served for
    one question."""
    from glassformer.cli import main

    if words[0] == "open" and "--help" not in words:
        words = [*words, "--check", "--port", "0"]
    out, complaints = output(io.BytesIO(), "utf-8"), io.StringIO()
    kept = sys.argv, sys.stdin
    sys.argv = ["glassformer", *words]
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin.encode()), "utf-8")
    code: Any = 0
    try:
        with redirect_stdout(out), redirect_stderr(complaints), environment(PLAIN):
            main()
    except SystemExit as ended:
        code = ended.code or 0
    finally:
        sys.argv, sys.stdin = kept
    out.flush()
    return int(code), out.buffer.getvalue().decode(), complaints.getvalue()


@contextmanager
def environment(changes: Mapping[str, str]) -> Iterator[None]:
    kept = dict(os.environ)
    os.environ.update(changes)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(kept)


# --- programs beside glassformer ----------------------------------------------------------------


def understand(words: Sequence[str]) -> str:
    """A command that is not run: its words are those of a verb, its recipe can be read."""
    import typer

    from glassformer.cli import app
    from glassformer.train.recipe import read_recipe

    words = list(words[: words.index(">")] if ">" in words else words)
    if words[0] != "glassformer":
        return PROGRAMS[words[0]](words[1:])
    command: Any = typer.main.get_command(app)
    context = command.commands[words[1]].make_context(words[1], words[2:])
    if words[1] == "train" and (ROOT / words[2]).is_file():
        read_recipe(ROOT / words[2], context.params["files"])
    return ""


def _make(words: Sequence[str]) -> str:
    """Not run here: sets an environment up. But there is such a target."""
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M)
    if not set(words) <= set(targets):
        raise WrongError(f"the Makefile has no {' '.join(words)}")
    return ""


def _pip(words: Sequence[str]) -> str:
    """Not run here: changes the environment. But there are such extras."""
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extras in re.findall(r"\[(.*?)\]", " ".join(words)):
        if not set(extras.split(",")) <= set(known):
            raise WrongError(f"pyproject.toml has no extra {extras}")
    return ""


def _python(words: Sequence[str]) -> str:
    """Not run here: scripts need data or a GPU, and have tests of their own. But there is one."""
    if not (ROOT / words[0]).is_file():
        raise WrongError(f"there is no {words[0]}")
    return ""


def _pytest(words: Sequence[str]) -> str:
    """In the folder of the page, which is a checkout then."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode or " passed" not in ended.stdout:
        raise WrongError(
            f"pytest {shlex.join(words)} ended with {ended.returncode}: {ended.stdout}"
        )
    return ended.stdout


def _torchrun(words: Sequence[str]) -> str:
    """tests/train/test_distributed.py runs it. The words behind `-m` are understood."""
    return understand(words[words.index("-m") + 1 :])


PROGRAMS: dict[str, Callable[[Sequence[str]], str]] = {
    "echo": lambda words: " ".join(words) + "\n",
    "cat": lambda words: "".join(Path(word).read_text("utf-8") for word in words),
    "make": _make,
    "pip": _pip,
    "pytest": _pytest,
    "python": _python,
    "torchrun": _torchrun,
}


# --- writing -----------------------------------------------------------------------------------


def written(text: str, name: str) -> str:
    """The page with what its blocks print now, beneath those that print."""
    bare = re.sub(r"(?<=```)\n+```text\n.*?^```$", "", text, flags=re.M | re.S)
    ran = iter(run(bare, name))

    def block(match: re.Match[str]) -> str:
        printed = "\n".join(line.rstrip() for line in next(ran).printed.rstrip().splitlines())
        return match[0] + (f"\n\n```text\n{printed}\n```" if printed else "")

    return BLOCK.sub(block, bare)


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        page = path.read_text("utf-8")
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            page = written(page, str(path))
        path.write_text(page, "utf-8")
        print(path)
