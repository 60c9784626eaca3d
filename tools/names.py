"""Reports names and words that the project does not use.

    python tools/names.py [FOLDER]

Checks that a class name is unique in the package, that no module, class, function, parameter,
field, variable or attribute has a name of version 0.1 that was replaced, and that docstrings,
comments, messages, the page's sources and the documentation contain none of the old metaphors.
`make lint` runs it.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
METAPHORS = re.compile(
    r"\b(rooms|(?:the|a|this) room|house of|desks?|(?:back )?doors?|knobs?|shel(?:f|ves)|storeys?"
    r"|onlookers?|the (?:eye|ear|workshop|archive) of|line-?ups?|(?:is|are) (?:not )?told"
    r"|comes? about|goes by|speaks? of|begins? anew|whoever|whatever is)\b",
    re.IGNORECASE,
)
QUOTED = re.compile(r"`[^`]*`|\"[^\"]*\"|“[^”]*”|\*[^*]+\*")  # code and examples
OLD_CLASSES = """
    Ahead Alone Animal Arranged Asked Band BeamRunner Beside Branches BranchRunner Buckets
    BurstRunner Capture Codec Common Company Draft Draws Embed Encoded Ends Feed Figure Filling
    Finished Flight ForeignCodec Frames Generation Guesser Guide History Hop Intake Judge Judged
    Kept Known Knobs Lineup Lookup Misused Named Neck Net News Nibbles Notes Onlooker Origin
    Overheard Packed Pass Patches PhraseBeam Pick Piece Place Reading Room Rule Runner Shelf Shown
    Side Slab Slots Speaking State Stops Strongest Table Taken Tap Tape TapeRunner Task Unfolding
    Updates Visible WithIdle Writer
"""
OLD_NAMES = """
    addresses answered askers asks banded beam_burst beside blanks blind both_ways burst bytelevel
    chances codec explained figures first_values flattens foresee foreseen hide holds instead judge
    judged keeps knob knobs laid laws lay lifted line_up lineup load_codec load_net make_knobs
    make_net make_plan mistake misused neck nibbles onlooker open_place overheard partly pauses pick
    play publish read_once rehearse rewriting rights rivals
    roomy run_bursts run_guessing run_texts said_by save_net saw say saying shaped shelf shift_text
    shrink sight source_mask speaking spoiled standing start_from_last storeys surround takes taped
    told trouble unfolding unigrams unrest walk_out whole_bias
"""  # of modules, functions, parameters, fields, variables and attributes
EXCEPTED = "generate/"  # its internals are rebuilt, names and words with them
WORD_LISTS = ("text/detect_language.py", "tasks/sentences.py")  # words of languages, not messages


def names(root: Path) -> Iterator[str]:
    """Yields a sentence for each class that is not unique and each old name in the package."""
    old_classes, old_names = set(OLD_CLASSES.split()), set(OLD_NAMES.split())
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted((root / "glassformer").rglob("*.py")):
        name = path.relative_to(root / "glassformer").as_posix()
        excepted = name.startswith(EXCEPTED)
        if path.stem in old_names and not excepted:
            yield f"{name}: the module has an old name"
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(name)
                if node.name in old_classes and not excepted:
                    yield f"{name}:{node.lineno}: class {node.name} has an old name"
            elif not excepted and (defined := defined_name(node)) in old_names:
                yield f"{name}:{node.lineno}: {defined} is an old name"
    for name, where in places.items():
        if len(where) > 1:
            yield f"{', '.join(where)}: class {name} is defined {len(where)} times"


def defined_name(node: ast.AST) -> str:
    """Returns the name that a node defines or reads from an object; empty for other nodes."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return name
        case ast.arg(arg=name) | ast.Attribute(attr=name):
            return name
        case ast.Name(id=name, ctx=ast.Store()):
            return name
    return ""


def words(root: Path) -> Iterator[str]:
    """Yields a sentence for each old metaphor in code, the page's sources and the documentation."""
    for path in sorted((root / "glassformer").rglob("*.py")):
        name = path.relative_to(root / "glassformer").as_posix()
        if not name.startswith(EXCEPTED) and name not in WORD_LISTS:
            for line, text in prose(path.read_text("utf-8")):
                yield from metaphors(f"glassformer/{name}:{line}", text)
    for folder, pattern in (("page/src", "*.ts"), ("page/src", "*.svelte")):
        for path in sorted((root / folder).rglob(pattern)):
            yield from metaphors(path.relative_to(root).as_posix(), path.read_text("utf-8"), None)
    pages = [*root.glob("*.md"), *(root / "docs").rglob("*.md")]
    for path in sorted(pages):
        text = path.read_text("utf-8")
        if path.name == "CHANGELOG.md":
            text = text.partition("### Renamed")[0]
        text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        yield from metaphors(path.relative_to(root).as_posix(), text)


def prose(source: str) -> Iterator[tuple[int, str]]:
    """Yields the comments and the strings of a module, with their lines."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
        elif token.type == tokenize.STRING and " " in token.string:
            yield token.start[0], token.string.strip("rfb\"'")


def metaphors(where: str, text: str, quoted: re.Pattern[str] | None = QUOTED) -> Iterator[str]:
    """Yields a sentence for each metaphor outside of what is `quoted`."""
    for line in text.splitlines():
        for found in METAPHORS.finditer(quoted.sub("", line) if quoted else line):
            yield f"{where}: {found[0]!r} in: {line.strip()}"


def main() -> None:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    problems = [*names(root), *words(root)]
    for problem in problems:
        print(problem)
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
