"""The `View` of one text in one model, which computes tensors on demand.

Nothing is computed before it is requested. A tensor requested for the first time is captured by an
additional forward pass and kept; `model.look(text, at="*")` captures everything in one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from glassformer.core import ActivationCapture
from glassformer.core.hooks import Tap
from glassformer.core.transformer import ModelOutput
from glassformer.core.versioning import ModelVersion
from glassformer.errors import ConfigError, GlassformerError, UnsupportedError
from glassformer.inside.capture.cancellation import check_cancelled
from glassformer.inside.capture.model_inputs import ModelInputs, token_text
from glassformer.inside.capture.named_tensor import NamedTensor
from glassformer.inside.capture.names import Axes, matching, names_of
from glassformer.inside.capture.stack_view import StackView
from glassformer.inside.intervene.edit import Edits, own_part
from glassformer.inside.intervene.editing import active, standing
from glassformer.tasks.model_protocol import TaskModel

if TYPE_CHECKING:
    from glassformer.inside.attribute.contributions import Contributions
    from glassformer.inside.attribute.gradients import Saliency
    from glassformer.inside.attribute.predictions import Predictions
    from glassformer.inside.lens.lens import Lens

Made = TypeVar("Made")


class StopForwardError(Exception):
    """Ends a forward pass early, once all requested tensors are captured."""


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


class View(StackView):
    """The result of `model.look`.

    The view is itself the `StackView` of the stack whose output the heads read; a view of an
    encoder-decoder model also has `encoder`, `decoder` and `cross`.

    Args:
        model: The model.
        reading: The model inputs.
        edits: Edits that apply to this view only.
        head: The head whose outputs are used unless a method names another; None is the first
            suitable one.
    """

    def __init__(
        self,
        model: TaskModel,
        reading: ModelInputs,
        edits: Edits | None = None,
        head: str | None = None,
    ) -> None:
        super().__init__(self, "encoder" if model.spec.decoder is None else "decoder")
        self.model, self.reading, self.head = model, reading, head
        self.edits = [*active(model.net), *([] if edits is None else [edits])]
        self.seen: dict[str, Tensor] = {}
        self._state = ModelVersion(model.net)
        self._out: ModelOutput | None = None
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
        if not self._state.matches(self.model.net):
            self._check_moved()
        check_cancelled()
        with standing(self.model.net, self.edits, alone=True):
            out: ModelOutput = self.model.net(**{**self.reading.inputs, **more}, tap=tap)
        return out

    def _check_moved(self) -> None:
        if not self._state.only_moved(self.model.net):
            raise GlassformerError(
                "The model has changed since this view was taken (training, an adapter, new "
                "weights); look again, or ask for all at once with at='*'."
            )
        self._state = ModelVersion(self.model.net)

    @torch.no_grad()
    def read_through(self, names: Iterable[str] = ()) -> ModelOutput:
        """Returns the output of a complete forward pass, also capturing the tensors `names`.

        The complete pass runs only if there was none yet.
        """
        new = [name for name in names if name not in self.seen]
        out = self.begin(new) if self._out is None else self._out
        self.capture(new)
        return out

    @torch.no_grad()
    def begin(self, names: Sequence[str]) -> ModelOutput:
        """Runs the first pass and captures those tensors of `names` that occur in it.

        Not every name occurs: a decoder without an encoder has no cross-attention, and not every
        text has global tokens.
        """
        seen = ActivationCapture(*names) if names else None
        self._out = self.run(seen)
        self._keep({} if seen is None else seen.seen)
        return self._out

    @torch.no_grad()
    def capture(self, names: Iterable[str]) -> None:
        """Captures tensors that are not known yet.

        If there are any, this runs a pass that ends after the last of them.
        """
        seen = CaptureUntil(name for name in names if name not in self.seen)
        if seen.left:
            with suppress(StopForwardError):
                self.run(seen, heads=())
        self._keep(seen.seen)
        for name in seen.left:
            raise ConfigError(f"Nothing passed under the name {name!r} in this model.")

    def _keep(self, seen: Mapping[str, Tensor]) -> None:
        known = names_of(self.model.spec)
        for name, tensor in seen.items():
            asks = "key head" not in known[name]  # keys are kept whole, as the patterns see them
            own = own_part(name, known[name], tensor, self.reading) if asks else tensor
            self.seen[name] = own

    def once(self, what: Any, make: Callable[[], Made]) -> Made:
        """Returns the value computed by `make` at the first call with the key `what`."""
        if what not in self._once:
            self._once[what] = make()
        made: Made = self._once[what]
        return made

    def taps(self, names: Sequence[str]) -> list[NamedTensor]:
        self.capture(names)
        known = names_of(self.model.spec)
        return [self._named(name, known[name]) for name in names]

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

    def _named(self, name: str, axes: Axes) -> NamedTensor:
        array = self.seen[name][0]
        stack, _, inner = name.partition(".")
        side = StackView(self, stack, "cross." if ".cross." in name else "")
        own, asked = ([token.text for token in some] for some in (side.tokens, side.sources))
        labels = {}
        for axis, size in zip(axes, array.shape, strict=True):
            words = {"position": own, "query": own, "key": asked}.get(axis)
            if words is not None:  # preceded by an empty memory or adapter tokens
                labels[axis] = [*["·"] * (size - len(words)), *words][-size:]
        return NamedTensor(array, axes, labels, f"{stack} {inner}")

    # --- stacks -----------------------------------------------------------------------------

    @property
    def encoder(self) -> StackView:
        return self._side("encoder")

    @property
    def decoder(self) -> StackView:
        return self._side("decoder")

    @property
    def cross(self) -> StackView:
        """The decoder's cross-attention to the encoder output."""
        if not (self.model.net.encoder is not None and self.model.net.decoder is not None):
            raise UnsupportedError(f"{self.model.architecture} has no cross-attention to look at.")
        return StackView(self, "decoder", "cross.")

    def _side(self, stack: str) -> StackView:
        if getattr(self.model.net, stack) is None:
            raise UnsupportedError(f"{self.model.architecture} has no {stack}.")
        return StackView(self, stack)

    # --- outputs ----------------------------------------------------------------------------

    @property
    def output(self) -> ModelOutput:
        return self.read_through()

    def token_text(self, id: int) -> str:
        known = self.model.tokenizer
        return token_text(None if known is None else known.target, id)

    @property
    def logits(self) -> NamedTensor:
        """The logits, [position, token], or [label] for a head that reads the whole text."""
        from glassformer.inside.attribute.predictions import head_with_outputs

        array = self.output.heads[head_with_outputs(self.model, self.head).name][0]
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
