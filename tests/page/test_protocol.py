"""The types of requests and responses: routes, their annotations, and the generated TypeScript."""

from __future__ import annotations

import runpy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict, get_args, get_type_hints

import pytest

from glassformer.page.binary_response import BinaryResponse, as_json
from glassformer.page.handlers import ROUTES
from glassformer.page.routes import route

ROOT = Path(__file__).parent.parent.parent
TOOL = runpy.run_path(str(ROOT / "tools/protocol.py"))


class PointRequest(TypedDict):
    """A point.

    More about it.
    """

    x: int
    name: NotRequired[str | None]
    pairs: list[tuple[int, float]]
    kind: Literal["a", "b"]


@dataclass(frozen=True)
class PointResult:
    values: dict[int, str]
    alternatives: tuple[int | str, ...]
    anything: Any


class PointArrays(BinaryResponse[PointResult, Literal["q", "k"]]):
    """Arrays of a point."""


def test_the_committed_types_are_up_to_date():
    committed = (ROOT / "page/src/protocol.generated.ts").read_text("utf-8")
    assert committed == TOOL["protocol"](), "run `python tools/protocol.py`"


def test_every_route_declares_its_types():
    for name, handler in ROUTES.items():
        hints = get_type_hints(handler)
        assert len(get_args(hints["request"])) == 1 and hints["return"] is not None, name


def test_annotations_become_typescript():
    types = TOOL["Protocol"]()
    assert types.type_of(PointRequest) == "PointRequest"
    assert types.declarations["PointRequest"] == (
        "/** A point. */\nexport type PointRequest = {\n  x: number;\n  name?: string | null;\n"
        '  pairs: [number, number][];\n  kind: "a" | "b";\n};\n'
    )
    assert types.type_of(PointArrays) == "PointArrays"
    assert 'BinaryResponse<PointResult, "q" | "k">' in types.declarations["PointArrays"]
    assert "values: Record<number, string>;" in types.declarations["PointResult"]
    assert "alternatives: (number | string)[];" in types.declarations["PointResult"]
    assert "anything: unknown;" in types.declarations["PointResult"]


def test_a_type_without_a_rule_is_an_error():
    with pytest.raises(TypeError, match=r"add a rule to tools/protocol.py"):
        TOOL["Protocol"]().type_of(set[int])


def test_a_dataclass_is_sent_as_its_fields():
    found = as_json({"one": PointResult({1: "a"}, (2,), float("inf"))})
    assert found == b'{"one":{"values":{"1":"a"},"alternatives":[2],"anything":null}}'


def test_a_route_has_one_handler():
    with pytest.raises(ValueError, match="'models' has two handlers"):
        route("models")(lambda session, request: {})
