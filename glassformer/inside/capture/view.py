"""The `View` of one text in one model, which computes tensors on demand.

Nothing is computed before it is requested. A tensor requested for the first time is captured by an
additional forward pass and kept; `model.look(text, at="*")` captures everything in one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from glassformer.core import ActivationCapture
from glassformer.core.hooks import Tap
from glassformer.core.model_output import ModelOutput
from glassformer.core.versioning import ModelVersion
from glassformer.errors import ConfigError, GlassformerError, UnsupportedError
from glassformer.inside.capture.activation_cache import ActivationCache
from glassformer.inside.capture.cancellation import check_cancelled
from glassformer.inside.capture.model_inputs import ModelInputs, token_text
from glassformer.inside.capture.named_tensor import NamedTensor
from glassformer.inside.capture.names import matching
from glassformer.inside.capture.stack_view import StackTensors, StackView
from glassformer.inside.displayable import Displayable
from glassformer.inside.intervene.edit import Edits
from glassformer.inside.intervene.editing import active, applied_edits
from glassformer.spec import StackSpec
from glassformer.tasks.model_protocol import TaskModel

if TYPE_CHECKING:
    from glassformer.inside.attribute.contributions import Contributions
    from glassformer.inside.attribute.gradients import Saliency
    from glassformer.inside.attribute.predictions import Predictions
    from glassformer.inside.lens.lens import Lens

Made = TypeVar("Made")


class StopForwardError(Exception):
    """Ends a forward pass early, once all requested tensors are captured.

    The last of them may be in the middle of a layer, where a stack cannot be told to stop.
    """


class CaptureUntil(ActivationCapture):
    """Captures tensors by name and ends the forward pass after the last of them."""

    def __init__(self, names: Iterable[str]) -> None:
        self.left = dict.fromkeys(names)
        super().__init__(*self.left)

    def wants(self, name: str) -> bool:
        return name in self.left

    def __call__(self, name: str, value: Tensor) -> Tensor:
        if name in self.left:
            del self.left[name]
            self.seen[name] = value
            if not self.left:
                raise StopForwardError
        return value


class View(StackTensors, Displayable):
    """The result of `model.look`.

    The view has a `StackView` for each stack: `encoder`, `decoder`, and `cross` for
    cross-attention. Its own tensors are those of the stack whose output the heads read.

    Args:
        model: The model.
        model_inputs: The model inputs.
        edits: Edits that apply to this view only.
        head: The head whose outputs are used unless a method names another; None is the first
            suitable one.
    """

    def __init__(
        self,
        model: TaskModel,
        model_inputs: ModelInputs,
        edits: Edits | None = None,
        head: str | None = None,
    ) -> None:
        self.stack = "encoder" if model.spec.decoder is None else "decoder"
        self.model, self.model_inputs, self.head = model, model_inputs, head
        self.edits = [*active(model), *([] if edits is None else [edits])]
        self.cache = ActivationCache(model.spec, model_inputs)
        self._state = ModelVersion(model)
        self._output: ModelOutput | None = None
        self._once: dict[Any, Any] = {}

    # --- forward passes ---------------------------------------------------------------------

    def run(self, tap: Tap | None, **more: Any) -> ModelOutput:
        """Runs a forward pass on the view's inputs with the view's edits.

        Args:
            tap: A hook that receives the tensors at the hook points.
            **more: Keyword arguments of the network that replace or extend the view's inputs.

        Returns:
            The model output.
        """
        if not self._state.matches(self.model):
            self._check_moved()
        check_cancelled()
        with applied_edits(self.model, self.edits, alone=True):
            out: ModelOutput = self.model(**{**self.model_inputs.inputs, **more}, tap=tap)
        return out

    def _check_moved(self) -> None:
        if not self._state.only_moved(self.model):
            raise GlassformerError(
                "The model has changed since this view was taken (training, an adapter, new "
                "weights); look again, or ask for all at once with at='*'."
            )
        self._state = ModelVersion(self.model)

    @torch.no_grad()
    def run_with_cache(
        self, names: Iterable[str] = (), *, ignore_missing: bool = False
    ) -> ModelOutput:
        """Returns the output of a complete forward pass, and captures the tensors `names`.

        The complete pass runs only if there was none yet.

        Args:
            names: The hook point names.
            ignore_missing: Whether names that do not occur in the pass are ignored: a decoder
                without an encoder has no cross-attention, and not every text has global tokens.
        """
        new = [name for name in names if name not in self.cache]
        if self._output is None:
            capture = ActivationCapture(*new) if new else None
            self._output = self.run(capture)
            self.cache.add({} if capture is None else capture.seen)
        if not ignore_missing:
            self.capture(new)
        return self._output

    @torch.no_grad()
    def capture(self, names: Iterable[str]) -> None:
        """Captures tensors that are not in the cache yet.

        If there are any, this runs a pass that ends after the last of them.
        """
        capture = CaptureUntil(name for name in names if name not in self.cache)
        if capture.left:
            with suppress(StopForwardError):
                self.run(capture, heads=())
        self.cache.add(capture.seen)
        for name in capture.left:
            raise ConfigError(f"Nothing passed under the name {name!r} in this model.")

    def once(self, what: Any, make: Callable[[], Made]) -> Made:
        """Returns the value computed by `make` at the first call with the key `what`."""
        if what not in self._once:
            self._once[what] = make()
        made: Made = self._once[what]
        return made

    def taps(self, names: Sequence[str]) -> list[NamedTensor]:
        self.capture(names)
        return [self.cache.named(name) for name in names]

    def tap(self, name: str) -> NamedTensor:
        """Returns the tensor at a hook point (core/hooks.py), such as `blocks.3.z`.

        The name starts with `encoder.` or `decoder.` if the model has both.
        """
        names = matching(self.model.spec, (name,))
        if len(names) > 1:
            raise ConfigError(
                f"{name!r} stands for {len(names)} tensors; name one of them, such as {names[0]!r}."
            )
        return self.taps(names)[0]

    # --- stacks -----------------------------------------------------------------------------

    @property
    def stack_view(self) -> StackView:
        """The stack whose output the heads read."""
        return StackView(self, self.stack)

    @property
    def spec(self) -> StackSpec:
        return self.stack_view.spec

    def name(self, layer: int, tensor: str) -> str:
        """Returns the hook point name of a layer's tensor; raises if there is none."""
        return self.stack_view.name(layer, tensor)

    @property
    def encoder(self) -> StackView:
        return self._side("encoder")

    @property
    def decoder(self) -> StackView:
        return self._side("decoder")

    @property
    def cross(self) -> StackView:
        """The decoder's cross-attention to the encoder output."""
        if not (self.model.encoder is not None and self.model.decoder is not None):
            raise UnsupportedError(f"{self.model.architecture} has no cross-attention to look at.")
        return StackView(self, "decoder", "cross.")

    def _side(self, stack: str) -> StackView:
        if getattr(self.model, stack) is None:
            raise UnsupportedError(f"{self.model.architecture} has no {stack}.")
        return StackView(self, stack)

    # --- outputs ----------------------------------------------------------------------------

    @property
    def output(self) -> ModelOutput:
        return self.run_with_cache()

    def token_text(self, id: int) -> str:
        known = self.model.tokenizer
        return token_text(None if known is None else known.target, id)

    @property
    def logits(self) -> NamedTensor:
        """The logits, [position, token], or [label] for a head that reads the whole text."""
        from glassformer.inside.attribute.predictions import head_with_outputs

        array = self.output.head_outputs[head_with_outputs(self.model, self.head).name][0]
        axes = {0: (), 1: ("label",), 2: ("position", "token")}[array.ndim]
        words = {"position": [token.text for token in self.tokens]}
        return NamedTensor(array, axes, words if array.ndim == 2 else {}, "logits")

    def predictions(
        self, position: int | None = None, top: int = 10, head: str | None = None
    ) -> Predictions:
        """Returns the most probable tokens (or labels) at a position.

        Args:
            position: The position, by default the last one of a decoder or the first mask of an
                encoder.
            top: The number of predictions.
            head: The head, by default that of the view.

        Returns:
            The predictions, most probable first.
        """
        from glassformer.inside.attribute.predictions import predictions

        return predictions(self, position, top, head)

    def lens(self, **how: Any) -> Lens:
        """Applies the logit lens, or a tuned lens, to every layer; see `lens.py`."""
        from glassformer.inside.lens.lens import lens

        return self.once((repr(how), how.get("tuned")), lambda: lens(self, **how))

    def lens_apart(self, other: View, measure: str = "divergence", **how: Any) -> NamedTensor:
        """Measures how far another view's lens differs at each stage; see `lens_divergence.py`."""
        from glassformer.inside.lens.lens_divergence import lens_divergence_between

        return lens_divergence_between(self, other, measure, **how)

    def contributions(self, token: int | str | None = None, **how: Any) -> Contributions:
        """Decomposes a logit into the contributions of all components; see `contributions.py`."""
        from glassformer.inside.attribute.contributions import contributions

        return contributions(self, token, **how)

    def gradient_x_input(self, token: int | str | None = None, **how: Any) -> Saliency:
        """Attributes a logit to the input tokens by gradient x input; see `gradients.py`."""
        from glassformer.inside.attribute.gradients import gradient_x_input

        return gradient_x_input(self, token, **how)

    def integrated_gradients(self, token: int | str | None = None, **how: Any) -> Saliency:
        """Attributes a logit to the input tokens by integrated gradients; see `gradients.py`."""
        from glassformer.inside.attribute.gradients import integrated_gradients

        return integrated_gradients(self, token, **how)

    def __repr__(self) -> str:
        words = "".join(token.text for token in self.tokens)
        return f"<{self.model.architecture} reads {len(self.tokens)} tokens: {words[:60]!r}>"

    def _repr_html_(self) -> str:
        from glassformer.inside.show.view import html

        return html(self)
