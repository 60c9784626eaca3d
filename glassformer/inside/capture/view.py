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
from glassformer.core.versioning import ModelVersion, one_call
from glassformer.errors import ConfigError, InputError, UnsupportedError
from glassformer.inside.capture.activation_cache import ActivationCache
from glassformer.inside.capture.cancellation import check_cancelled
from glassformer.inside.capture.model_inputs import ModelInputs, token_text
from glassformer.inside.capture.named_tensor import NamedTensor
from glassformer.inside.capture.names import matching
from glassformer.inside.capture.stack_view import StackTensors, StackView
from glassformer.inside.capture.view_attribution import ViewAttribution
from glassformer.inside.displayable import Displayable
from glassformer.inside.intervene.edit import Edits
from glassformer.inside.intervene.editing import active, applied_edits
from glassformer.spec import StackSpec
from glassformer.tasks.model_protocol import TaskModel

if TYPE_CHECKING:
    from glassformer.inside.attribute.predictions import Predictions
    from glassformer.inside.lens.lens import Lens
    from glassformer.inside.lens.tuned_lens import TunedLens

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
            self.tensors[name] = value
            if not self.left:
                raise StopForwardError
        return value


class View(StackTensors, ViewAttribution, Displayable):
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
        check_cancelled()
        with one_call():
            if not self._state.matches(self.model):
                raise InputError(
                    "The model has changed since this view was created (training, an adapter, new "
                    "weights); call look again, or capture all tensors at once with at='*'."
                )
            with applied_edits(self.model, self.edits, alone=True):
                out: ModelOutput = self.model(**{**self.model_inputs.inputs, **more}, tap=tap)
        return out

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
            self.cache.add({} if capture is None else capture.tensors)
        if not ignore_missing:
            self.capture(new)
        return self._output

    @torch.no_grad()
    def capture(self, names: Iterable[str]) -> None:
        """Captures tensors that are not in the cache yet.

        If there are any, this runs a pass that ends after the last of them.

        Args:
            names: The hook point names.
        """
        capture = CaptureUntil(name for name in names if name not in self.cache)
        if capture.left:
            with suppress(StopForwardError):
                self.run(capture, heads=())
        self.cache.add(capture.tensors)
        for name in capture.left:
            raise ConfigError(f"The forward pass of this model has no tensor {name!r}.")

    def once(self, key: Any, compute: Callable[[], Made]) -> Made:
        """Computes a value at the first call and returns the same one later.

        Args:
            key: Identifies the value.
            compute: Computes it.

        Returns:
            The value.
        """
        if key not in self._once:
            self._once[key] = compute()
        made: Made = self._once[key]
        return made

    def taps(self, names: Sequence[str]) -> list[NamedTensor]:
        """Returns the tensors at several hook points.

        Args:
            names: Full hook point names.

        Returns:
            The tensors, in the order of the names.
        """
        self.capture(names)
        return [self.cache.named(name) for name in names]

    def tap(self, name: str) -> NamedTensor:
        """Returns the tensor at a hook point (core/hooks.py), such as `blocks.3.z`.

        Args:
            name: The hook point name. It starts with `encoder.` or `decoder.` if the model has
                both.

        Returns:
            The tensor.
        """
        names = matching(self.model.spec, (name,))
        if len(names) > 1:
            raise ConfigError(
                f"{name!r} matches {len(names)} tensors; name one of them, such as {names[0]!r}."
            )
        return self.taps(names)[0]

    # --- stacks -----------------------------------------------------------------------------

    @property
    def stack_view(self) -> StackView:
        """The stack whose output the heads read."""
        return StackView(self, self.stack)

    @property
    def spec(self) -> StackSpec:
        """The spec of the stack whose output the heads read."""
        return self.stack_view.spec

    def name(self, layer: int, tensor: str) -> str:
        """Returns the hook point name of a layer's tensor.

        Args:
            layer: The layer; negative indices count from the end.
            tensor: The end of the hook point name, such as "pattern".

        Returns:
            The full name.

        Raises:
            ConfigError: The layer has no such tensor.
        """
        return self.stack_view.name(layer, tensor)

    @property
    def encoder(self) -> StackView:
        """The encoder."""
        return self._side("encoder")

    @property
    def decoder(self) -> StackView:
        """The decoder."""
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
        """The output of a complete forward pass."""
        return self.run_with_cache()

    def token_text(self, id: int) -> str:
        """Returns the text of a token id, as views display it.

        Args:
            id: The token id.

        Returns:
            The text.
        """
        known = self.model.tokenizer
        return token_text(None if known is None else known.target_tokenizer, id)

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

    def lens(
        self,
        *,
        token: int | str | Sequence[int] | None = None,
        top: int = 5,
        positions: Sequence[int] | None = None,
        head: str | None = None,
        through: int = 0,
        tuned: TunedLens | None = None,
    ) -> Lens:
        """Applies the logit lens, or a tuned lens, to every layer.

        Args:
            token: The token whose probability and rank are followed: one for all positions, or a
                sequence with one per position (-1 for none). By default the token predicted in
                the end.
            top: The number of most probable tokens.
            positions: The positions, by default all.
            head: The head, by default that of the view.
            through: The number of last layers that process each residual stream before it is
                decoded, skipping the layers in between.
            tuned: A tuned lens, which maps each residual stream toward that of the last layer
                before it is decoded.

        Returns:
            The lens: the most probable tokens at each stage and position.
        """
        from glassformer.inside.lens.lens import lens

        key = ("lens", repr((token, top, positions, head, through)), tuned)
        return self.once(
            key,
            lambda: lens(
                self,
                token=token,
                top=top,
                positions=positions,
                head=head,
                through=through,
                tuned=tuned,
            ),
        )

    def lens_divergence(
        self,
        other: View,
        measure: str = "kl",
        *,
        tuned: TunedLens | None = None,
        head: str | None = None,
    ) -> NamedTensor:
        """Measures how far the lens outputs of another view differ from those of this one.

        Args:
            other: A view of another model, another text of equally many tokens, or an edited run.
            measure: "kl" is KL(self, other) in nats, "js" the Jensen-Shannon divergence in bits,
                "total_variation" the total variation distance from 0 to 1.
            tuned: A tuned lens to use instead of the logit lens.
            head: The head, by default that of this view.

        Returns:
            The differences, [stage, position].
        """
        from glassformer.inside.lens.lens_divergence import lens_divergence_between

        return lens_divergence_between(self, other, measure, tuned, head)

    def __repr__(self) -> str:
        words = "".join(token.text for token in self.tokens)
        return f"<{self.model.architecture} reads {len(self.tokens)} tokens: {words[:60]!r}>"

    def _repr_html_(self) -> str:
        from glassformer.inside.show.view import html

        return html(self)
