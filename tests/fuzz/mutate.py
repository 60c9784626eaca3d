"""Mutations of files: of bytes, of binary numbers, and of the structure of JSON and TOML."""

from __future__ import annotations

import json
import struct
import tomllib
from collections.abc import Callable, Mapping
from copy import deepcopy
from random import Random
from typing import Any

import tomli_w

from tests.fuzz.registry import Mutation

LONG = 100_000  # characters of a very long text
DEEP = 100_000  # brackets of a very deep nesting
MOST_BYTES = 2**24  # of a changed file
NUMBERS: tuple[Any, ...] = (
    0, -1, 1, 2, 3, 7, 255, 65_535, 10**6, 10**9, 2**31 - 1, 2**31, 2**53, 2**63 - 1, 2**63, 2**64,
    10**30, -(2**63), 0.0, -0.0, 0.5, -0.5, 1.5, 1e-300, 1e9, 1e308, -1e308,
    float("nan"), float("inf"), float("-inf"),
)  # fmt: skip
TEXTS = (
    "", " ", "\0", "\n", "../x", "/etc/passwd", "nan", "1e9", "true", "{}", "é", "模型",
    "\u202eabc", "\ud800", "\U0001f9ed\u200d", "a\u0301" * 40, "%s%n", "{0}", "x" * LONG,
)  # fmt: skip
OTHERS: tuple[Any, ...] = (None, True, False, [], {}, [[]], [None], {"": None}, {"a": {"a": {}}})


def mutated(rng: Random, name: str, content: bytes, own: Mapping[str, Mutation]) -> bytes:
    """Returns the content with one to four changes."""
    suffix = "." + name.rpartition(".")[2]
    structure = own.get(suffix, STRUCTURES.get(suffix))
    known = structure is not None and rng.random() < 0.75
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        change = structure if known and structure is not None else rng.choice(BYTES)
        try:
            changed = change(rng, content)
        except Exception:  # no longer of that structure
            changed = rng.choice(BYTES)(rng, content)
        if len(changed) <= MOST_BYTES:  # a trial may take ten times the bytes of its file
            content = changed
    return content


# --- bytes ---------------------------------------------------------------------------------------


def flip_bit(rng: Random, content: bytes) -> bytes:
    if not content:
        return b"\0"
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8))):
        data[near_start(rng, len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def truncate(rng: Random, content: bytes) -> bytes:
    return content[: near_start(rng, len(content) + 1)]


def insert(rng: Random, content: bytes) -> bytes:
    at = near_start(rng, len(content) + 1)
    piece = rng.choice((rng.randbytes(rng.randrange(1, 20)), b"\0" * 64, b"\xff" * 8, b"\n", b"  "))
    return content[:at] + piece + content[at:]


def delete(rng: Random, content: bytes) -> bytes:
    at = near_start(rng, len(content) + 1)
    return content[:at] + content[at + rng.randrange(1, 20) :]


def duplicate(rng: Random, content: bytes) -> bytes:
    one, other = sorted((near_start(rng, len(content) + 1), rng.randrange(len(content) + 1)))
    piece = content[one : min(other, one + 4096)]
    return content[:other] + piece * rng.choice((1, 1, 1, 20)) + content[other:]


def put_number(rng: Random, content: bytes) -> bytes:
    """Overwrites bytes by a number of 1 to 8 bytes, of either byte order."""
    form = rng.choice(("<B", "<H", ">H", "<I", ">I", "<Q", ">Q", "<f", "<d"))
    size = struct.calcsize(form)
    at = near_start(rng, max(1, len(content) - size + 1))
    if form in ("<f", "<d"):
        value: Any = rng.choice((float("nan"), float("inf"), -1.0, 1e30, 0.0))
    else:
        bits = 8 * size
        value = rng.choice((0, 1, 2, 2**bits - 1, 2 ** (bits - 1), 2 ** (bits - 1) - 1, 10**9))
        value %= 2**bits
    return content[:at] + struct.pack(form, value) + content[at + size :]


def shuffle(rng: Random, content: bytes) -> bytes:
    one, two, three = sorted(rng.randrange(len(content) + 1) for _ in range(3))
    return content[:one] + content[two:three] + content[one:two] + content[three:]


def near_start(rng: Random, size: int) -> int:
    """Returns a position below `size`, of which half are in the first 256 bytes: headers."""
    return rng.randrange(min(size, 256)) if rng.random() < 0.5 else rng.randrange(size)


BYTES: tuple[Mutation, ...] = (
    flip_bit, truncate, insert, delete, duplicate, put_number, put_number, shuffle,
)  # fmt: skip


# --- structures ----------------------------------------------------------------------------------


def change_json(rng: Random, content: bytes) -> bytes:
    if rng.random() < 0.02:
        return bracketed(rng, content)
    value = json.loads(content)
    return dumped(change_value(rng, value))


def change_json_lines(rng: Random, content: bytes) -> bytes:
    lines = content.splitlines()
    at = rng.randrange(len(lines))
    lines[at] = change_json(rng, lines[at]).replace(b"\n", b"")
    return b"\n".join(lines) + b"\n"


def change_toml(rng: Random, content: bytes) -> bytes:
    if rng.random() < 0.02:
        return b"x = " + b"[" * DEEP
    value = change_value(rng, tomllib.loads(content.decode()))
    return tomli_w.dumps(value).encode("utf-8", "surrogatepass")


def dumped(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def bracketed(rng: Random, content: bytes) -> bytes:
    """Replaces a value by very many brackets."""
    opening, closing = rng.choice(((b"[", b"]"), (b'{"a":', b"}")))
    deep = opening * DEEP + b"1" + closing * DEEP
    before, colon, rest = content.partition(b":")
    return before + colon + deep + (b", " + rest.partition(b",")[2] if colon else b"")


def change_value(rng: Random, value: Any) -> Any:
    """Changes one place in a nested value: its number, text, type, key or presence."""
    value = deepcopy(value)
    places = list(found_places(value))
    if not places:
        return strange(rng, value)
    holder, key = rng.choice(places)
    old, what = holder[key], rng.random()
    if what < 0.15:
        del holder[key]
    elif what < 0.22 and isinstance(holder, dict):
        holder[rng.choice((f"{key}x", "", "\ud800", key.upper()))] = holder.pop(key)
    elif what < 0.28 and isinstance(holder, list):
        holder.insert(key, deepcopy(old))
    elif what < 0.33:
        holder[key] = deepcopy(rng.choice(places)[0])
    else:
        holder[key] = strange(rng, old)
    return value


def strange(rng: Random, old: Any) -> Any:
    """Returns a value in place of the old one: mostly of its type, and often near it."""
    kind = rng.random()
    if isinstance(old, bool):
        return rng.choice((not old, not old, 0, "true", None, []))
    if isinstance(old, int | float) and kind < 0.8:
        near = (old + 1, old - 1, old * 2, -old, old * 1000)
        return rng.choice((*NUMBERS, *near, *near))
    if isinstance(old, str) and kind < 0.7:
        cut = old[: rng.randrange(len(old) + 1)]
        return rng.choice((*TEXTS, old + rng.choice(TEXTS[:-1]), cut, old * 100))
    if isinstance(old, list) and old and kind < 0.6:
        return rng.choice((old * 2, old[::-1], old[:1], old * 1000))
    if isinstance(old, dict) and kind < 0.4:
        return list(old.items())
    return rng.choice((*NUMBERS, *TEXTS, *OTHERS, *OTHERS, *OTHERS))


def found_places(value: Any) -> list[tuple[Any, Any]]:
    """Returns all (dict or list, key or index) of a nested value."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        one = waiting.pop()
        keys = (
            one.keys()
            if isinstance(one, dict)
            else range(len(one))
            if isinstance(one, list)
            else ()
        )
        for key in list(keys):
            found.append((one, key))
            waiting.append(one[key])
    return found


STRUCTURES: dict[str, Callable[[Random, bytes], bytes]] = {
    ".json": change_json,
    ".jsonl": change_json_lines,
    ".toml": change_toml,
}
