"""Access to the tensors of one stack by layer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import torch

from glassformer.errors import ConfigError, UnsupportedError
from glassformer.inside.capture.model_inputs import InputToken
from glassformer.inside.capture.named_tensor import Index, NamedTensor, as_index, check_index
from glassformer.inside.capture.names import names_of
from glassformer.inside.displayable import Displayable
from glassformer.spec import BlockSpec, StackSpec

if TYPE_CHECKING:
    from glassformer.inside.capture.view import View


class LayerTensors(Displayable):
    """One tensor of every layer of a stack.

    `[layer, ...]` returns the `NamedTensor` of one layer, `[:]` that of all layers.
    """

    def __init__(self, side: StackView, tensor: str) -> None:
        self.side, self.tensor = side, tensor

    def __len__(self) -> int:
        return len(self.side.spec.order)

    def __iter__(self) -> Iterator[NamedTensor]:
        return (self[layer] for layer in range(len(self)))

    def __getitem__(self, index: Index | tuple[Index, ...]) -> NamedTensor:
        given, *rest = index if isinstance(index, tuple) else (index,)
        first = as_index(given)
        if first is Ellipsis:
            first = slice(None)
        if isinstance(first, slice):
            return self.stacked(range(len(self))[first])[(slice(None), *rest)]
        check_index(first, len(self), f"layer of the {self.side.stack}")
        one = self.layers([range(len(self))[first]])[0]
        return one[tuple(rest)] if rest else one

    def stacked(self, layers: Sequence[int]) -> NamedTensor:
        """Stacks the tensors of several layers.

        Args:
            layers: The layers.

        Returns:
            One tensor, [layer, ...].
        """
        found = self.layers(layers)
        if len({one.shape for one in found}) > 1:
            raise UnsupportedError(
                f"The {self.tensor} of these layers differ in shape; index the layers one by one."
            )
        labels = {"layer": [str(layer) for layer in layers], **found[0].labels}
        whole = torch.stack([one.array for one in found])
        title = f"{self.side.title} {self.tensor}"
        return NamedTensor(whole, ("layer", *found[0].axes), labels, title)

    def layers(self, layers: Iterable[int]) -> list[NamedTensor]:
        """Returns the tensors of several layers.

        Args:
            layers: The layers.

        Returns:
            One tensor per layer.
        """
        return self.side.view.taps([self.side.name(layer, self.tensor) for layer in layers])

    def __repr__(self) -> str:
        return f"<{self.tensor} of {len(self)} layers of the {self.side.stack}>"

    def _repr_html_(self) -> str:
        from glassformer.inside.show.attention import html

        return html(self)

    @property
    def heading(self) -> str:
        """The title of pictures of these tensors."""
        return f"{self.side.title} {self.tensor}"


class StackTensors(ABC):
    """The tensors of a stack, which a `StackView` and a `View` (of its last stack) both give."""

    @property
    @abstractmethod
    def stack_view(self) -> StackView:
        """The stack whose tensors these are."""

    @property
    def tokens(self) -> tuple[InputToken, ...]:
        """The tokens at the query positions, also for cross-attention."""
        found: tuple[InputToken, ...] = getattr(
            self.stack_view.view.model_inputs, self.stack_view.stack
        )
        return found

    @property
    def attention(self) -> LayerTensors:
        """The attention patterns after the softmax, [layer, head, query, key]."""
        return self.stack_view.layers("pattern")

    @property
    def scores(self) -> LayerTensors:
        """The scaled, biased and masked scores before the softmax, [layer, head, query, key]."""
        return self.stack_view.layers("scores")

    @property
    def q(self) -> LayerTensors:
        """The queries, after any rotary position embedding: [layer, head, position, dim]."""
        return self.stack_view.layers("q")

    @property
    def k(self) -> LayerTensors:
        """The keys, after any rotary position embedding: [layer, head, position, dim]."""
        return self.stack_view.layers("k")

    @property
    def v(self) -> LayerTensors:
        """The values, [layer, head, position, dim]."""
        return self.stack_view.layers("v")

    @property
    def z(self) -> LayerTensors:
        """The values weighted by the pattern, [layer, head, position, dim]."""
        return self.stack_view.layers("z")

    @property
    def attention_out(self) -> LayerTensors:
        """The output of attention, as added to the residual stream: [layer, position, width]."""
        return self.stack_view.layers("attn_out")

    @property
    def neurons(self) -> LayerTensors:
        """The feed-forward activations after the activation function, [layer, position, neuron]."""
        return self.stack_view.layers("ffn_post")

    @property
    def feed_forward_out(self) -> LayerTensors:
        """The output of the feed-forward part, as added to the residual stream.

        Its shape is [layer, position, width].
        """
        return self.stack_view.layers("ffn_out")

    @property
    def residual(self) -> LayerTensors:
        """The residual stream after each layer, [layer, position, width]."""
        return self.stack_view.layers("resid_post")

    @property
    def residual_before(self) -> LayerTensors:
        """The residual stream before each layer, [layer, position, width]."""
        return self.stack_view.layers("resid_pre")

    @property
    def residual_between(self) -> LayerTensors:
        """The residual stream between attention and feed-forward."""
        return self.stack_view.layers("resid_mid")

    @property
    def embedding(self) -> NamedTensor:
        """The embeddings that enter the first layer, [position, width]."""
        return self.stack_view.tensor("embed")

    @property
    def final(self) -> NamedTensor:
        """The last hidden state, which the heads or cross-attention read: [position, width]."""
        return self.stack_view.tensor("final")

    def rollout(self, residual: float = 0.5) -> NamedTensor:
        """Computes attention rollout through all layers.

        Args:
            residual: The weight of the residual connection, from 0 to below 1.

        Returns:
            The share of each key position in each query position, [query, key].
        """
        from glassformer.inside.attribute.rollout import rollout

        return rollout(self.stack_view, residual)


class StackView(StackTensors, Displayable):
    """One stack of the model, or its cross-attention (`scope` is "cross.")."""

    def __init__(self, view: View, stack: str, scope: str = "") -> None:
        self.view, self.stack, self.scope = view, stack, scope

    @property
    def stack_view(self) -> StackView:
        """This stack itself."""
        return self

    @property
    def spec(self) -> StackSpec:
        """The spec of the stack."""
        found = getattr(self.view.model.spec, self.stack)
        assert isinstance(found, StackSpec)
        return found

    @property
    def title(self) -> str:
        """The name of the stack in pictures."""
        return "cross-attention" if self.scope else self.stack

    @property
    def sources(self) -> tuple[InputToken, ...]:
        """The tokens at the key positions."""
        model_inputs = self.view.model_inputs
        return model_inputs.encoder if self.scope else model_inputs.story or self.tokens

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
        check_index(layer, len(self.spec.order), f"layer of the {self.stack}")
        layer %= len(self.spec.order)
        found = f"{self.stack}.blocks.{layer}.{self.scope}{tensor}"
        if found not in names_of(self.view.model.spec):
            spec = self.spec.blocks[self.spec.order[layer]]
            what = "a block" if isinstance(spec, BlockSpec) else f"a {spec.name} layer"
            raise ConfigError(
                f"Layer {layer} of the {self.stack} is {what}, which has no {self.scope}{tensor}."
            )
        return found

    def layers(self, tensor: str) -> LayerTensors:
        """Returns a tensor of every layer.

        Args:
            tensor: The end of the hook point name, such as "pattern".

        Returns:
            The tensors by layer.
        """
        return LayerTensors(self, tensor)

    def tensor(self, name: str) -> NamedTensor:
        """Returns a tensor of the stack itself.

        Args:
            name: "embed" or "final".

        Returns:
            The tensor.
        """
        return self.view.tap(f"{self.stack}.{name}")

    def __repr__(self) -> str:
        return f"<{self.title} of {self.view!r}>"

    def _repr_html_(self) -> str:
        from glassformer.inside.show.view import side_html

        return side_html(self)
