"""Activation capture, attribution, lenses, weight analysis and interventions."""

from glassformer.inside.attribute.causal_basis import causal_basis
from glassformer.inside.attribute.steering import direction, mean
from glassformer.inside.capture.look import look
from glassformer.inside.capture.named_tensor import NamedTensor
from glassformer.inside.capture.stack_view import LayerTensors, StackView
from glassformer.inside.capture.view import View
from glassformer.inside.explain import attention_neurons, head_types
from glassformer.inside.explain.max_activating import max_activating
from glassformer.inside.intervene import patching
from glassformer.inside.intervene.ablations import (
    ablate_heads,
    ablate_layer,
    patch,
    scale_heads,
    steer,
)
from glassformer.inside.intervene.edit import Edit
from glassformer.inside.lens.early_exit import early_exit
from glassformer.inside.lens.lens_metrics import lens_divergence, lens_transfer
from glassformer.inside.lens.train_tuned_lens import tune_lens
from glassformer.inside.lens.tuned_lens import TunedLens
from glassformer.inside.weights import parameters, positions
from glassformer.inside.weights.circuits import circuit
from glassformer.inside.weights.composition import composition

__all__ = [
    "Edit",
    "LayerTensors",
    "NamedTensor",
    "StackView",
    "TunedLens",
    "View",
    "ablate_heads",
    "ablate_layer",
    "attention_neurons",
    "causal_basis",
    "circuit",
    "composition",
    "direction",
    "early_exit",
    "head_types",
    "lens_divergence",
    "lens_transfer",
    "look",
    "max_activating",
    "mean",
    "parameters",
    "patch",
    "patching",
    "positions",
    "scale_heads",
    "steer",
    "tune_lens",
]
