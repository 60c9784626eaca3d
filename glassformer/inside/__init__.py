"""Inside room: what a model does with a text, and what it would do if it were otherwise."""

from glassformer.inside.explain import head_types as kinds
from glassformer.inside.explain import attention_neurons as neurons
from glassformer.inside.weights import parameters
from glassformer.inside.intervene import patching
from glassformer.inside.weights import positions
from glassformer.inside.attribute.causal_basis import causal_basis
from glassformer.inside.weights.circuits import circuit
from glassformer.inside.weights.composition import composition
from glassformer.inside.intervene.edit import Edit
from glassformer.inside.capture.look import look
from glassformer.inside.capture.named_tensor import Named
from glassformer.inside.lens.lens_metrics import lens_divergence, lens_transfer
from glassformer.inside.capture.stack_view import Layers, Side
from glassformer.inside.lens.early_exit import speaking
from glassformer.inside.attribute.steering import direction, mean
from glassformer.inside.explain.max_activating import strongest
from glassformer.inside.lens.train_tuned_lens import tune_lens
from glassformer.inside.lens.tuned_lens import TunedLens
from glassformer.inside.intervene.ablations import heads_off, heads_scaled, layer_off, patch, steer
from glassformer.inside.capture.view import View

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
