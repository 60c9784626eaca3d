"""Divergence between the lenses of two views, stage by stage."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from glassformer.errors import ConfigError, InputError
from glassformer.inside.capture.named_tensor import NamedTensor
from glassformer.inside.lens.stages import language_head, stage_label, stage_names

if TYPE_CHECKING:
    from glassformer.inside.capture.view import View
    from glassformer.inside.lens.tuned_lens import TunedLens


@torch.no_grad()
def lens_divergence_between(
    view: View,
    other: View,
    measure: str = "kl",
    tuned: TunedLens | None = None,
    head: str | None = None,
) -> NamedTensor:
    """Measures how far two views differ in their lens outputs.

    The views can be of two models, of a run and an edited run, or of two texts with equally many
    tokens.

    Args:
        view: The first view.
        other: The second view.
        measure: "kl" is KL(view, other) in nats, "js" the Jensen-Shannon divergence in
            bits, "total_variation" the total variation distance from 0 to 1.
        tuned: A tuned lens to use instead of the logit lens.
        head: The head, by default that of the first view.

    Returns:
        [stage, position]
    """
    if measure not in MEASURES:
        raise ConfigError(f"measure is one of {', '.join(MEASURES)}, not {measure!r}.")
    names = stage_names(view.model.spec)
    if len(view.tokens) != len(other.tokens) or names != stage_names(other.model.spec):
        raise InputError("The two runs must have the same number of tokens and layers.")
    by, rows = language_head(view.model, head or view.head).name, []
    for each in (view, other):
        each.run_with_cache(names)
    for name in names:
        p, q = (
            each.model.readout(_mapped(tuned, name, each, by), by)[0].float().log_softmax(-1)
            for each in (view, other)
        )
        rows.append(MEASURES[measure](p, q))
    labels = {
        "stage": [*map(stage_label, names)],
        "position": [token.text for token in view.tokens],
    }
    return NamedTensor(torch.stack(rows), ("stage", "position"), labels, f"lenses apart, {measure}")


def _mapped(tuned: TunedLens | None, name: str, view: View, head: str) -> Tensor:
    stream = view.cache[name]
    return stream if tuned is None else tuned.check(view.model, head).map(name, stream)


def _kl(p: Tensor, q: Tensor) -> Tensor:
    return (p.exp() * (p - q)).sum(-1)


def _js(p: Tensor, q: Tensor) -> Tensor:
    middle = torch.logaddexp(p, q) - math.log(2)
    return (_kl(p, middle) + _kl(q, middle)) / (2 * math.log(2))


MEASURES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {  # on log-probabilities
    "kl": _kl,
    "js": _js,
    "total_variation": lambda p, q: (p.exp() - q.exp()).abs().sum(-1) / 2,
}
