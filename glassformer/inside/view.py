"""Inside room, the view: one text in one model, and whatever is asked about it.

Nothing is computed before it is asked for. What is asked for first is captured by one more pass
for just that, and kept; a pass of everything is `model.look(text, at="*")`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from glassformer.core import Capture
from glassformer.core.model import Output
from glassformer.errors import GlassformerError
from glassformer.generate.prefix import State
from glassformer.inside.edit import Edits
from glassformer.inside.editing import active, standing
from glassformer.inside.named import Index, Named, check_index
from glassformer.inside.names import Axes, matching, names_of
from glassformer.inside.read import Reading, Token, token_text
from glassformer.spec import Block, Hop
from glassformer.spec import Stack as StackSpec
from glassformer.tasks.base import Model

if TYPE_CHECKING:
    from glassformer.inside.contributions import Contributions
    from glassformer.inside.gradients import Saliency
    from glassformer.inside.lens import Lens
    from glassformer.inside.predictions import Prediction


class Layers:
    """A tensor of every layer of a stack; `[layer, ...]` gives a `Named`, `[:]` all layers."""

    def __init__(self, side: Side, tensor: str) -> None:
        self.side, self.tensor = side, tensor

    def __len__(self) -> int:
        return len(self.side.spec.order)

    def __iter__(self) -> Iterator[Named]:
        return (self[layer] for layer in range(len(self)))

    def __getitem__(self, index: Index | tuple[Index, ...]) -> Named:
        first, *rest = index if isinstance(index, tuple) else (index,)
        if first is Ellipsis:
            first = slice(None)
        if isinstance(first, slice):
            return self.stacked(range(len(self))[first])[(slice(None), *rest)]
        check_index(first, len(self), f"layer of the {self.side.stack}")  # type: ignore[arg-type]
        one = self.layers([range(len(self))[first]])[0]  # type: ignore[index]
        return one[tuple(rest)] if rest else one

    def stacked(self, layers: Sequence[int]) -> Named:
        """[layer, ...]"""
        found = self.layers(layers)
        if len({one.shape for one in found}) > 1:
            raise GlassformerError(
                f"The {self.tensor} of these layers differ in shape; take them one by one."
            )
        labels = {"layer": [str(layer) for layer in layers], **found[0].labels}
        whole = torch.stack([one.array for one in found])
        title = f"{self.side.title} {self.tensor}"
        return Named(whole, ("layer", *found[0].axes), labels, title)

    def layers(self, layers: Iterable[int]) -> list[Named]:
        return self.side.view.taps([self.side.name(layer, self.tensor) for layer in layers])

    def __repr__(self) -> str:
        return f"<{self.tensor} of {len(self)} layers of the {self.side.stack}>"

    def _repr_html_(self) -> str:
        from glassformer.inside.show import heads

        return heads.html(self)

    def save_html(self, path: str | Path) -> None:
        """One file that needs nothing else."""
        from glassformer.inside.show import heads, page

        page.save(path, f"{self.side.title} {self.tensor}", heads.html(self))


class Side:
    """A stack of the model, or its attention to the encoder (`scope` "cross.")."""

    def __init__(self, view: View, stack: str, scope: str = "") -> None:
        self.view, self.stack, self.scope = view, stack, scope

    @property
    def spec(self) -> StackSpec:
        found = getattr(self.view.model.spec, self.stack)
        assert isinstance(found, StackSpec)
        return found

    @property
    def title(self) -> str:
        return "cross-attention" if self.scope else self.stack

    @property
    def tokens(self) -> tuple[Token, ...]:
        """Those that ask; for cross-attention, too."""
        found: tuple[Token, ...] = getattr(self.view.reading, self.stack)
        return found

    @property
    def sources(self) -> tuple[Token, ...]:
        """Those that are asked."""
        hops = any(isinstance(layer, Hop) for layer in self.spec.blocks)
        return self.view.reading.encoder if self.scope or hops else self.tokens

    def name(self, layer: int, tensor: str) -> str:
        """The tap's name; one that the layer does not have is an error."""
        found = f"{self.stack}.blocks.{layer}.{self.scope}{tensor}"
        if found not in names_of(self.view.model.spec):
            kind = type(self.spec.blocks[self.spec.order[layer]])
            what = "a block of attention" if kind is Block else f"a {kind.__name__.lower()} layer"
            raise GlassformerError(
                f"Layer {layer} of the {self.stack} is {what}, which has no {self.scope}{tensor}."
            )
        return found

    @property
    def attention(self) -> Layers:
        """[layer, head, query, key]: how much each token takes from each."""
        return Layers(self, "pattern")

    @property
    def scores(self) -> Layers:
        """[layer, head, query, key]: before the softmax; scaled, biased, masked."""
        return Layers(self, "scores")

    @property
    def q(self) -> Layers:
        """[layer, head, position, dim]: with the position in it, where it is turned."""
        return Layers(self, "q")

    @property
    def k(self) -> Layers:
        return Layers(self, "k")

    @property
    def v(self) -> Layers:
        return Layers(self, "v")

    @property
    def z(self) -> Layers:
        """[layer, head, position, dim]: the values, weighted by the pattern."""
        return Layers(self, "z")

    @property
    def attention_out(self) -> Layers:
        return Layers(self, "attn_out")

    @property
    def neurons(self) -> Layers:
        """[layer, position, neuron]: the feed-forward layer's, behind the activation."""
        return Layers(self, "ffn_post")

    @property
    def feed_forward_out(self) -> Layers:
        return Layers(self, "ffn_out")

    @property
    def residual(self) -> Layers:
        """[layer, position, width]: the stream behind each layer."""
        return Layers(self, "resid_post")

    @property
    def residual_before(self) -> Layers:
        return Layers(self, "resid_pre")

    @property
    def residual_between(self) -> Layers:
        """The stream between attention and feed-forward."""
        return Layers(self, "resid_mid")

    @property
    def embedding(self) -> Named:
        return self.view.taps([f"{self.stack}.embed"])[0]

    @property
    def final(self) -> Named:
        """[position, width]: what the heads, or cross-attention, read."""
        return self.view.taps([f"{self.stack}.final"])[0]

    def rollout(self, residual: float = 0.5) -> Named:
        """[query, key]: attention through all layers; see `rollout.py`."""
        from glassformer.inside.rollout import rollout

        return rollout(self, residual)


class View(Side):
    """What `model.look` gives. It is itself the side whose output the heads read; an
    encoder-decoder has `encoder`, `decoder` and `cross`."""

    def __init__(self, model: Model, reading: Reading, edits: Edits | None = None) -> None:
        super().__init__(self, "encoder" if model.spec.decoder is None else "decoder")
        self.model, self.reading = model, reading
        self.edits = [*active(model.net), *([] if edits is None else [edits])]
        self.seen: dict[str, Tensor] = {}
        self._state = State(model.net)
        self._out: Output | None = None

    # --- passes ----------------------------------------------------------------------------------

    def run(self, capture: Capture | None, **more: Any) -> Output:
        """A pass of the same text through the same model, with the edits of this view."""
        if not self._state.holds(self.model.net):
            raise GlassformerError(
                "The model has changed since this view was taken (training, an adapter, new "
                "weights); look again, or ask for all at once with at='*'."
            )
        with standing(self.model.net, self.edits, alone=True):
            out: Output = self.model.net(**{**self.reading.inputs, **more}, tap=capture)
        return out

    @torch.no_grad()
    def capture(self, names: Iterable[str]) -> None:
        """One pass for what is not known yet, if anything."""
        new = [name for name in names if name not in self.seen]
        if not new and self._out is not None:
            return
        seen = Capture(*new) if new else None
        self._out = self.run(seen)
        if seen is not None:
            self.seen |= seen.seen
        for name in new:
            if name not in self.seen:
                raise GlassformerError(f"Nothing passed under the name {name!r} in this model.")

    def taps(self, names: Sequence[str]) -> list[Named]:
        self.capture(names)
        known = names_of(self.model.spec)
        return [self._named(name, known[name]) for name in names]

    def tap(self, name: str) -> Named:
        """Any tensor by its name in core/tap.py, `blocks.3.z`; `encoder.` or `decoder.` in front
        where the model has both."""
        return self.taps(matching(self.model.spec, (name,)))[0]

    def _named(self, name: str, axes: Axes) -> Named:
        array = self.seen[name][0]
        stack, _, inner = name.partition(".")
        side = Side(self, stack, "cross." if ".cross." in name else "")
        own, asked = ([token.text for token in some] for some in (side.tokens, side.sources))
        labels = {}
        for axis, size in zip(axes, array.shape, strict=True):
            words = {"position": own, "query": own, "key": asked}.get(axis)
            if words is not None:  # an empty memory or an adapter's tokens stand in front
                labels[axis] = [*["·"] * (size - len(words)), *words][-size:]
        return Named(array, axes, labels, f"{stack} {inner}")

    # --- sides -----------------------------------------------------------------------------------

    @property
    def encoder(self) -> Side:
        return self._side("encoder")

    @property
    def decoder(self) -> Side:
        return self._side("decoder")

    @property
    def cross(self) -> Side:
        """The decoder's attention to what the encoder has read."""
        if not (self.model.net.encoder is not None and self.model.net.decoder is not None):
            raise GlassformerError(f"{self.model.architecture} has no cross-attention to look at.")
        return Side(self, "decoder", "cross.")

    def _side(self, stack: str) -> Side:
        if getattr(self.model.net, stack) is None:
            raise GlassformerError(f"{self.model.architecture} has no {stack}.")
        return Side(self, stack)

    # --- what comes out --------------------------------------------------------------------------

    @property
    def output(self) -> Output:
        self.capture(())
        assert self._out is not None
        return self._out

    def token_text(self, id: int) -> str:
        known = self.model.tokenizer
        return token_text(None if known is None else known.target, id)

    @property
    def logits(self) -> Named:
        """[position, token], or [label] of a head for whole texts."""
        if self.output.logits is None:
            raise GlassformerError(
                f"{self.model.architecture} has no head with outputs, so no logits; attention, "
                "residuals and all other tensors are there."
            )
        array = self.output.logits[0]
        axes = {0: (), 1: ("label",), 2: ("position", "token")}[array.ndim]
        words = {"position": [token.text for token in self.tokens]}
        return Named(array, axes, words if array.ndim == 2 else {}, "logits")

    def predictions(self, position: int | None = None, top: int = 10) -> list[Prediction]:
        """The most probable tokens (or labels) at a position: by default the last one of a
        decoder, the first mask of an encoder."""
        from glassformer.inside.predictions import predictions

        return predictions(self, position, top)

    def lens(self, **how: Any) -> Lens:
        """What each layer would say; see `lens.py`."""
        from glassformer.inside.lens import lens

        return lens(self, **how)

    def contributions(self, token: int | str | None = None, **how: Any) -> Contributions:
        """Of what a logit is the sum; see `contributions.py`."""
        from glassformer.inside.contributions import contributions

        return contributions(self, token, **how)

    def gradient_x_input(self, token: int | str | None = None, **how: Any) -> Saliency:
        from glassformer.inside.gradients import gradient_x_input

        return gradient_x_input(self, token, **how)

    def integrated_gradients(self, token: int | str | None = None, **how: Any) -> Saliency:
        from glassformer.inside.gradients import integrated_gradients

        return integrated_gradients(self, token, **how)

    def __repr__(self) -> str:
        words = "".join(token.text for token in self.tokens)
        return f"<{self.model.architecture} reads {len(self.tokens)} tokens: {words[:60]!r}>"

    def _repr_html_(self) -> str:
        from glassformer.inside.show import view

        return view.html(self)

    def save_html(self, path: str | Path) -> None:
        """One file that needs nothing else."""
        from glassformer.inside.show import page, view

        page.save(path, repr(self), view.html(self))
