"""Inside room: what a model does with a text, and what it would do if it were otherwise."""

from glassformer.inside import kinds, neurons, parameters, patching, positions
from glassformer.inside.bases import causal_basis
from glassformer.inside.circuits import circuit
from glassformer.inside.composition import composition
from glassformer.inside.edit import Edit
from glassformer.inside.look import look
from glassformer.inside.named import Named
from glassformer.inside.saying import lens_divergence, lens_transfer
from glassformer.inside.side import Layers, Side
from glassformer.inside.speaking import speaking
from glassformer.inside.steering import direction, mean
from glassformer.inside.strongest import strongest
from glassformer.inside.tune import tune_lens
from glassformer.inside.tuned import TunedLens
from glassformer.inside.usual import heads_off, heads_scaled, layer_off, patch, steer
from glassformer.inside.view import View

__all__ = [
    "Edit",
    "Layers",
    "Named",
    "Side",
    "TunedLens",
    "View",
    "causal_basis",
    "circuit",
    "composition",
    "direction",
    "heads_off",
    "heads_scaled",
    "kinds",
    "layer_off",
    "lens_divergence",
    "lens_transfer",
    "look",
    "mean",
    "neurons",
    "parameters",
    "patch",
    "patching",
    "positions",
    "speaking",
    "steer",
    "strongest",
    "tune_lens",
]
