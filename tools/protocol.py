"""Writes page/src/protocol.generated.ts, the types of the page's requests and responses.

    python tools/protocol.py

The types are the annotations of the handlers in glassformer/page/handlers. A test checks that the
committed file is up to date.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints

from glassformer.page.binary_response import BinaryResponse
from glassformer.page.handlers import ROUTES

FILE = Path(__file__).parent.parent / "page" / "src" / "protocol.generated.ts"
HEADER = """\
// Written by tools/protocol.py from the annotations of glassformer/page/handlers. Do not edit.
import type { BinaryResponse } from "./binary";
"""
SCALARS = {str: "string", int: "number", float: "number", bool: "boolean", Any: "unknown"}
SCALARS |= {NoneType: "null", object: "unknown"}
UNIONS = (Union, UnionType)


class Protocol:
    """The TypeScript declarations of the types that are reached from the routes."""

    def __init__(self) -> None:
        self.declarations: dict[str, str] = {}
        self._aliases = {hint: name for name, hint in aliases()}

    def type_of(self, hint: Any) -> str:
        """Returns the TypeScript type of a Python annotation."""
        if hint in self._aliases:
            name = self._aliases[hint]
            if name not in self.declarations:
                self.declarations[name] = f"export type {name} = {self.expression(hint)};\n"
            return name
        return self.expression(hint)

    def expression(self, hint: Any) -> str:
        if hint in SCALARS:
            return SCALARS[hint]
        origin, args = get_origin(hint), get_args(hint)
        if origin is Literal:
            return " | ".join(f'"{one}"' if isinstance(one, str) else str(one) for one in args)
        if origin in UNIONS:
            return " | ".join(map(self.type_of, args))
        if origin is tuple and args[-1:] != (...,):
            return f"[{', '.join(map(self.type_of, args))}]"
        if origin in (list, tuple, Sequence):
            item = self.type_of(args[0])
            return f"({item})[]" if " | " in item else f"{item}[]"
        if origin in (dict, Mapping):
            return f"Record<{self.type_of(args[0])}, {self.type_of(args[1])}>"
        if inspect.isclass(hint):
            return self.declared(hint)
        raise TypeError(f"{hint!r} has no TypeScript type; add a rule to tools/protocol.py.")

    def declared(self, kind: type) -> str:
        """Declares an interface for a class and returns its name."""
        name = kind.__name__
        if name not in self.declarations:
            self.declarations[name] = ""  # keeps the order, and ends recursion
            self.declarations[name] = comment(kind) + self.interface(kind)
        return name

    def interface(self, kind: type) -> str:
        if issubclass(kind, BinaryResponse):
            metadata, names = get_args(kind.__orig_bases__[0])  # type: ignore[attr-defined]
            base = f"BinaryResponse<{self.type_of(metadata)}, {self.type_of(names)}>"
            return f"export type {kind.__name__} = {base};\n"
        if not is_dataclass(kind) and not hasattr(kind, "__required_keys__"):
            raise TypeError(f"{kind!r} is neither a TypedDict nor a dataclass.")
        lines = [f"export type {kind.__name__} = {{"]
        for field, hint in get_type_hints(kind, include_extras=True).items():
            optional = get_origin(hint) is NotRequired
            type_name = self.type_of(get_args(hint)[0] if optional else hint)
            lines.append(f"  {field}{'?' if optional else ''}: {type_name};")
        return "\n".join([*lines, "};\n"])


def aliases() -> Iterator[tuple[str, Any]]:
    """Yields the named literals and unions of the page's modules."""
    for module_name in [name for name in sys.modules if name.startswith("glassformer.page")]:
        for name, value in vars(sys.modules[module_name]).items():
            if get_origin(value) in (Literal, *UNIONS):
                yield name, value


def comment(kind: type) -> str:
    text = kind.__doc__ if kind.__doc__ and not kind.__doc__.startswith("dict(") else ""
    lines = inspect.cleandoc(text).split("\n\n")[0].splitlines()
    if not lines:
        return ""
    return "/** " + "\n * ".join(lines) + " */\n"


def protocol() -> str:
    """Returns the contents of protocol.generated.ts."""
    types = Protocol()
    routes = ["export interface Routes {"]
    for name, handler in sorted(ROUTES.items()):
        hints = get_type_hints(handler)
        (request,) = get_args(hints["request"])
        given, returned = types.type_of(request), types.type_of(hints["return"])
        routes.append(f"  {name}: {{ request: {given}; response: {returned} }};")
    all_routes = "/** The types of every route. */\n" + "\n".join([*routes, "}\n"])
    return "\n".join([HEADER, *types.declarations.values(), all_routes])


if __name__ == "__main__":
    FILE.write_text(protocol(), "utf-8")
