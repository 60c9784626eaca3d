"""Shell completion of words with colons in bash.

bash splits zoo:NAME at the colon and expects only the part after it as completion.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from io import StringIO

from glassformer.zoo import PREFIX
from glassformer.zoo import published as real

ASKED = "_GLASSFORMER_COMPLETE"


@contextmanager
def colons_kept() -> Iterator[None]:
    """Wraps the command line, which is asked for completions through the environment."""
    if os.environ.get(ASKED) != "complete_bash":
        yield
        return
    given = os.environ.get("COMP_WORDS", "").split("\n")  # as in typer's completion script
    given = given[: int(os.environ.get("COMP_CWORD") or 0) + 1]
    words = join_colons(given)
    if len(words) == len(given):
        yield
        return
    os.environ |= {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    before = words[-1][: words[-1].find(":") + 1]
    shown = StringIO()
    try:
        with redirect_stdout(shown):
            yield
    finally:
        print("\n".join(one.removeprefix(before) for one in shown.getvalue().splitlines()))


def join_colons(words: Sequence[str]) -> list[str]:
    found: list[str] = []
    for word in words:
        last = found[-1] if found else ""
        if f"{last}{word}" in (PREFIX, real.PREFIX) or last in (PREFIX, real.PREFIX):
            found[-1] += word
        else:
            found.append(word)
    return found
