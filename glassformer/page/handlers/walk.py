"""Handlers for the computation steps of a text and the explanation of single numbers."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from glassformer.inside.explain.cells import cell as explain
from glassformer.inside.explain.steps import steps
from glassformer.page.request_args import RequestArgs
from glassformer.page.session import Session


def walk(session: Session, asked: RequestArgs) -> dict[str, Any]:
    """Returns the computation steps through one layer and head."""
    view = session.view(asked)
    stack = asked.choice("stack", ("encoder", "decoder"))
    found = steps(view, stack, asked.index("layer"), asked.index("head"))
    return {"steps": [{**asdict(step), "from": step.origin} for step in found]}


def cell(session: Session, asked: RequestArgs) -> dict[str, Any]:
    """Returns the explanation of one number of a tensor."""
    view = session.view(asked)
    head = asked.index("head") if "head" in asked else None
    limit = asked.index("limit", 12, least=1)
    found = explain(
        view, asked.text("name"), asked.index("row"), asked.index("col"), head=head, limit=limit
    )
    return asdict(found)
