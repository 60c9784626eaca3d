"""Division of whole numbers that rounds up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from numpy.typing import NDArray

Whole = TypeVar("Whole", int, "NDArray[Any]")


def ceil_div(value: Whole, divisor: int) -> Whole:
    """Returns `value / divisor`, rounded up.

    >>> ceil_div(9, 4)
    3
    """
    return -(-value // divisor)


def round_up(value: Whole, multiple: int) -> Whole:
    """Returns the smallest multiple of `multiple` that is not below `value`.

    >>> round_up(9, 4)
    12
    """
    return ceil_div(value, multiple) * multiple
