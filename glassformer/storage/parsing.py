"""Parsing of damaged or hostile files: whatever a parser raises becomes one sentence."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any

from glassformer.errors import GlassformerError, LoadError

MAX_DEPTH = 100
"""The largest number of nested objects and lists in a JSON file."""


def parse_json(content: str | bytes) -> Any:
    """Returns the value of a JSON text; raises only ValueError, also for too many brackets."""
    try:
        value = json.loads(content)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None
    if not is_flat(value, MAX_DEPTH):
        raise ValueError("its values are nested too deeply")
    return value


def is_flat(value: Any, most: int) -> bool:
    """Returns whether objects and lists are nested at most `most` times."""
    if not isinstance(value, dict | list):
        return True
    inner = value.values() if isinstance(value, dict) else value
    return most > 0 and all(is_flat(v, most - 1) for v in inner if isinstance(v, dict | list))


def read_json(path: Path, kind: type[Any] = dict) -> Any:
    """Returns the JSON object or, with `kind`, the list or another value of a file."""
    try:
        value = parse_json(path.read_bytes())
    except FileNotFoundError:
        raise LoadError(f"The file {path} does not exist.") from None
    except OSError as error:
        raise LoadError(f"The file {path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise LoadError(f"{path} is not JSON ({error}); get it again.") from None
    if not isinstance(value, kind):
        raise LoadError(f"{path} must hold a JSON {NAMES[kind]}; get it again.")
    return value


def has_form(value: Any, form: Any) -> bool:
    """Returns whether a JSON value has a form.

    A form is a type (`float` is any number or null), None, a tuple of alternatives, a list of one
    form, or an object of forms by key, in which "?" ends the name of a key that may be missing, and
    "*" stands for all other keys.
    """
    if isinstance(form, tuple):
        return any(has_form(value, one) for one in form)
    if isinstance(form, list):
        return isinstance(value, list) and all(has_form(one, form[0]) for one in value)
    if isinstance(form, dict):
        return isinstance(value, dict) and _has_keys(value, form)
    if form is float and type(value) in (float, type(None)):
        return True
    if form in (int, float):
        return type(value) is int and abs(value) < 2**63
    return value is None if form is None else form is object or type(value) is form


def _has_keys(value: dict[str, Any], form: dict[str, Any]) -> bool:
    forms = {key.removesuffix("?"): inner for key, inner in form.items()}
    needed = {key for key in form if not key.endswith(("?", "*"))}
    if not needed <= value.keys():
        return False
    others = forms.get("*", object)
    return all(has_form(one, forms.get(key, others)) for key, one in value.items())


_standard_error = RLock()  # it belongs to the process, so one thread redirects it at a time


@contextmanager
def silent() -> Iterator[None]:
    """Discards what a library in Rust prints about its panics, which `parsing` converts."""
    with _standard_error:
        kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nothing, 2)
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            os.close(nothing)


NAMES: dict[type[Any], str] = {dict: "object", list: "list"}


@contextmanager
def parsing(path: Path, what: str, raises: type[GlassformerError] = LoadError) -> Iterator[None]:
    """Converts what the parser of another library raises to the error that `path` is not `what`.

    Libraries do not declare what they raise for damaged files, and a panic of a library in Rust is
    not an `Exception`.
    """
    try:
        yield
    except GlassformerError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        why = (str(error).splitlines() or [""])[0].strip().rstrip(".") or type(error).__name__
        raise raises(f"{path} is not {what} ({why}); get it again.") from None
