"""Reports names and words that the project does not use.

    python tools/names.py

Checks that a class name is unique in the package, that no module, class, function, parameter or
field has an old name, and that docstrings and documentation contain none of the old metaphors.
`make lint` runs it.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "glassformer"
METAPHORS = re.compile(
    r"\b(rooms|(?:the|a|this) room|desks?|doors?|knobs?|shel(?:f|ves)|storeys?|onlookers?)\b",
    re.IGNORECASE,
)
QUOTED = re.compile(r"`[^`]*`|\"[^\"]*\"|“[^”]*”")  # code and examples, where a word is itself
OLD_CLASSES = {
    *("Ahead", "Alone", "Animal", "Arranged", "Asked", "Beside", "Branches", "Codec", "Company"),
    *("Draws", "Encoded", "Figure", "ForeignCodec", "Guesser", "Intake", "Judge", "Judged", "Kept"),
    *("Knobs", "Lineup", "Misused", "Named", "Neck", "Net", "News", "Nibbles", "Notes", "Onlooker"),
    *("Overheard", "Packed", "PhraseBeam", "Pick", "Piece", "Place", "Reading", "Room", "Shelf"),
    *("Shown", "Side", "Slab", "Slots", "Speaking", "Stops", "Strongest", "Taken", "Unfolding"),
    *("Visible", "WithIdle", "Writer"),
}
OLD_NAMES = {  # of functions, parameters, fields and modules
    *("addresses", "askers", "beside", "blanks", "both_ways", "bytelevel", "codec", "flattens"),
    *("foreign", "foresee", "judge", "judged", "knobs", "line_up", "lineup", "make_knobs"),
    *("misused", "onlooker", "open_place", "overheard", "publish", "read_once", "rehearse"),
    *("rewriting", "roomy", "run_bursts", "run_guessing", "run_texts", "said_by", "saying"),
    *("shelf", "shift_text", "speaking", "start_from_last", "storeys", "theirs"),
    *("told", "unfolding", "unrest", "usual"),
}
EXCEPTED = ("generate/",)  # its internals are rebuilt, names and words with them
PAGES = [
    *(path for path in ROOT.glob("*.md") if path.name != "CHANGELOG.md"),
    *(path for path in (ROOT / "docs").rglob("*.md") if path.name not in ("api.md",)),
]


def class_names() -> Iterator[str]:
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        name = str(path.relative_to(PACKAGE))
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(name)
                if node.name in OLD_CLASSES and not name.startswith(EXCEPTED):
                    yield f"{name}:{node.lineno}: class {node.name} has an old name"
    for name, where in places.items():
        if len(where) > 1:
            yield f"{', '.join(where)}: class {name} is defined {len(where)} times"


def old_names() -> Iterator[str]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = str(path.relative_to(PACKAGE))
        if name.startswith(EXCEPTED):
            continue
        if path.stem in OLD_NAMES:
            yield f"{name}: the module has an old name"
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            defined = ""
            if isinstance(node, ast.FunctionDef):
                defined = node.name
            elif isinstance(node, ast.arg):
                defined = node.arg
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                defined = node.target.id
            if defined in OLD_NAMES:
                yield f"{name}:{node.lineno}: {defined} is an old name"


def docstrings() -> Iterator[str]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for path in sorted(PACKAGE.rglob("*.py")):
        name = str(path.relative_to(PACKAGE))
        if name.startswith(EXCEPTED):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, kinds):
                yield from metaphors(f"glassformer/{name}", ast.get_docstring(node) or "")


def pages() -> Iterator[str]:
    for path in PAGES:
        prose = re.sub(r"```.*?```", "", path.read_text("utf-8"), flags=re.DOTALL)
        yield from metaphors(str(path.relative_to(ROOT)), prose)


def metaphors(where: str, text: str) -> Iterator[str]:
    for line in text.splitlines():
        for found in METAPHORS.finditer(QUOTED.sub("", line)):
            yield f"{where}: {found[0]!r} in: {line.strip()}"


def main() -> None:
    problems = [*class_names(), *old_names(), *docstrings(), *pages()]
    for problem in problems:
        print(problem)
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
