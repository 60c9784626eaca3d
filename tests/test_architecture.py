"""The package's layout: import order, dependencies, file sizes, unique class names."""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "glassformer"
ORDER = (  # a package imports only from itself and from packages before it
    "errors",
    "rounding",
    "interrupts",
    "callable_package",
    "registry",
    "storage",
    "plotting",
    "native",
    "zoo",
    "spec",
    "text",
    "signals",
    "core",
    "baselines",
    "families",
    "weights",
    "adapters",
    "data",
    "metrics",
    "generate",
    "tasks",
    "parameter_table",
    "inside",
    "model",
    "find_model",
    "creation",
    "loading",
    "word_vectors",
    "train",
    "check",
    "evaluate",
    "page",
    "cli",
)
LEAN_IMPORTS = {"torch", "numpy", "safetensors", "tokenizers", "glassformer", "triton"}
LEAN_PACKAGES = (
    "spec",
    "text",
    "core",
    "families",
    "weights",
    "adapters",
    "data",
    "generate",
    "tasks",
    "inside",
    "train",
)
FILES = sorted(PACKAGE.rglob("*.py"))


def package_of(path: Path) -> str:
    return layer(path.relative_to(PACKAGE).parts[0].removesuffix(".py"))


def layer(name: str) -> str:
    """Returns the name in `ORDER`; the modules of `Model` are one layer."""
    return "model" if name.startswith("model_") else name


def name_of(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


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


def test_every_package_has_a_place_in_the_order():
    found = {package_of(path) for path in FILES} - {"__init__", "__main__"}
    assert found - set(ORDER) == set()


def test_a_package_imports_only_from_packages_before_it():
    wrong = []
    for path in FILES:
        package = package_of(path)
        if package in ("__init__", "__main__"):
            continue
        for name in imports_of(path, inside_functions=True):
            if name.startswith("glassformer."):
                other = layer(name.split(".")[1])
                if other in ORDER and ORDER.index(other) > ORDER.index(package):
                    wrong.append(f"{name_of(path)} imports {name}")
    assert sorted(wrong) == []


def test_the_lean_packages_need_few_libraries():
    allowed = LEAN_IMPORTS | set(sys.stdlib_module_names)
    wrong = []
    for path in FILES:
        if package_of(path) in LEAN_PACKAGES:
            libraries = {name.split(".")[0] for name in imports_of(path, inside_functions=False)}
            wrong += [f"{name_of(path)} imports {name}" for name in libraries - allowed]
            if package_of(path) == "spec" and "torch" in libraries:
                wrong.append(f"{name_of(path)} imports torch")
    assert wrong == []


def lines(path: Path) -> int:
    return len(path.read_text("utf-8").splitlines())


def test_a_file_can_be_read_in_one_sitting():
    assert [name_of(p) for p in FILES if package_of(p) == "core" and lines(p) > 300] == []
    families = [p for p in FILES if package_of(p) == "families"]
    assert [name_of(p) for p in families if lines(p) > 250] == []


def test_the_core_knows_no_model_by_its_name():
    """No string in the code of core/ (docstrings excepted) is a family's name."""
    from glassformer.families import families

    known = {part for kind in families() for part in (kind, kind.replace("-", ""))} - {
        "glassformer"
    }
    for path in FILES:
        if package_of(path) == "core":
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    words = re.findall(r"[\w-]+", node.value.lower())
                    short = len(words) <= 2
                    assert not (short and known & set(words)), f"{path}: {node.value!r}"


def test_a_class_name_is_unique():
    places: dict[str, list[str]] = defaultdict(list)
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(name_of(path))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_no_public_function_takes_any_keyword_and_returns_anything():
    """Such a function has no types; a `TypedDict` or a return type gives it some."""
    wrong = []
    for path in FILES:
        body = ast.parse(path.read_text("utf-8")).body
        classes = [n for n in body if isinstance(n, ast.ClassDef) and n.name[0] != "_"]
        for node in [*body, *(member for each in classes for member in each.body)]:
            if not isinstance(node, ast.FunctionDef) or re.match("_[^_]", node.name):
                continue
            kinds = (node.args.kwarg and node.args.kwarg.annotation, node.returns)
            if all(isinstance(kind, ast.Name) and kind.id == "Any" for kind in kinds):
                wrong.append(f"{name_of(path)}: {node.name}")
    assert wrong == []


def test_every_module_has_a_docstring():
    without = [name_of(p) for p in FILES if not ast.get_docstring(ast.parse(p.read_text("utf-8")))]
    assert without == []
