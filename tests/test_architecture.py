"""The house stays as docs/architecture.md draws it: who may import whom, and how long a file is."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "glassformer"
ROOMS = (  # in the order in which data walks through them; a room imports only from earlier ones
    "errors",
    "storage",
    "svg",
    "native",
    "zoo",
    "gguf",
    "spec",
    "text",
    "core",
    "baselines",
    "families",
    "weights",
    "adapters",
    "metrics",
    "generate",
    "tasks",
    "table",
    "inside",
    "model",
    "source",
    "train",
    "check",
    "evaluate",
    "page",
    "cli",
)
LEAN = {"torch", "numpy", "safetensors", "tokenizers", "glassformer", "triton"}  # in torch for CUDA
LEAN_ROOMS = (
    "storage",
    "spec",
    "text",
    "core",
    "families",
    "weights",
    "adapters",
    "generate",
    "tasks",
    "inside",
    "train",
)
FILES = sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imports_of(path: Path, inside_functions: bool) -> set[str]:
    tree = ast.parse(path.read_text("utf-8"))
    nodes = ast.walk(tree) if inside_functions else tree.body
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: imports are absolute"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def name_of(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_room_imports_only_from_rooms_before_it(path):
    room = room_of(path)
    if room in ("__init__", "__main__"):
        return
    for name in imports_of(path, inside_functions=True):
        if name.startswith("glassformer."):
            other = name.split(".")[1]
            if other in ROOMS:
                assert ROOMS.index(other) <= ROOMS.index(room), f"{room} imports {other}"


@pytest.mark.parametrize(
    "path",
    [p for p in FILES if room_of(p) in LEAN_ROOMS],
    ids=name_of,
)
def test_the_inner_rooms_need_little(path):
    import sys

    outside = {name.split(".")[0] for name in imports_of(path, inside_functions=False)}
    assert outside <= LEAN | set(sys.stdlib_module_names)
    if room_of(path) == "spec":
        assert "torch" not in outside


def lines(path: Path) -> int:
    return len(path.read_text("utf-8").splitlines())


def test_the_core_can_be_read_in_an_evening():
    core = [path for path in FILES if room_of(path) == "core"]
    assert sum(map(lines, core)) < 3500
    assert [name_of(path) for path in core if lines(path) > 300] == []


def test_a_family_can_be_read_in_one_sitting():
    families = [path for path in FILES if room_of(path) == "families"]
    assert [name_of(path) for path in families if lines(path) > 150] == []


def test_the_core_knows_no_model_by_its_name():
    """A string in the code of core/ (not in its explanations) that is a family's name."""
    from glassformer.families import families

    known = {part for kind in families() for part in (kind, kind.replace("-", ""))} - {
        "glassformer"
    }
    for path in FILES:
        if room_of(path) == "core":
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    words = re.findall(r"[\w-]+", node.value.lower())
                    short = len(words) <= 2
                    assert not (short and known & set(words)), f"{path}: {node.value!r}"


def test_every_module_says_what_it_is():
    without = [name_of(p) for p in FILES if not ast.get_docstring(ast.parse(p.read_text("utf-8")))]
    assert without == []
