"""The registry of metrics by the names under which evaluations report them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import getdoc
from typing import Any, TypeVar

from glassformer.registry import Registry

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class MetricDeclaration:
    """What is known of a metric beside its value.

    Attributes:
        about: What it is, in one sentence.
        smaller_is_better: Whether a smaller value is a better one.
    """

    about: str
    smaller_is_better: bool = False


METRICS: Registry[MetricDeclaration] = Registry("metric", __package__)


def metric(name: str, *, smaller_is_better: bool = False) -> Callable[[Function], Function]:
    """Returns a decorator that declares the metric that a function computes.

    The first line of the function's docstring says what the metric is.
    """

    def declare(function: Function) -> Function:
        about = (getdoc(function) or "").partition("\n")[0]
        declare_metric(name, about, smaller_is_better=smaller_is_better)
        return function

    return declare


def declare_metric(name: str, about: str, *, smaller_is_better: bool = False) -> None:
    """Declares a metric that no function of this package computes alone."""
    METRICS.register(name, MetricDeclaration(about=about, smaller_is_better=smaller_is_better))


def find_metric(name: str) -> MetricDeclaration:
    """Returns the declaration of a metric by a name such as `f1`, `loss.lm` or `reviews/f1`.

    What follows a dot is a part of the loss, what precedes a slash a part of a mixture.
    """
    return METRICS.find(name.split(".")[0].split("/")[-1])


declare_metric("loss", "The mean loss of the training objective.", smaller_is_better=True)
