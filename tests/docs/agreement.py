"""Whether what is shown is what is printed."""

from __future__ import annotations

import re

NUMBER = re.compile(r"-?\d+(?:\.\d*)?")


def agree(shown: str, printed: str) -> bool:
    """The same words, and numbers that differ by one in the last digit shown at most: machines
    round differently. Tensors are printed with as many spaces as their signs need."""
    if _words(shown) != _words(printed):
        return False
    return all(
        abs(float(one) - float(other)) < 1.5 * 10.0 ** -len(one.partition(".")[2])
        if "." in one
        else one == other
        for one, other in zip(NUMBER.findall(shown), NUMBER.findall(printed), strict=True)
    )


def _words(text: str) -> list[str]:
    return [NUMBER.sub("#", line).replace(" ", "") for line in text.rstrip().splitlines()]
