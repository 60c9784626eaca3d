"""The methods of a view that attribute an output to components and to input tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from glassformer.inside.attribute.contributions import Contributions
    from glassformer.inside.attribute.gradients import Saliency
    from glassformer.inside.attribute.input_effects import InputEffects
    from glassformer.inside.capture.view import View


class ViewAttribution:
    """The part of `View` that explains an output by components or input tokens."""

    @property
    def _view(self) -> View:
        return cast("View", self)

    def contributions(
        self,
        token: int | str | None = None,
        *,
        position: int | None = None,
        versus: int | str | None = None,
        head: str | None = None,
        neurons: int | Sequence[int] = (),
    ) -> Contributions:
        """Decomposes a logit into the contributions of all components.

        Args:
            token: A token or label by index or name; None is the predicted one.
            position: The position, for heads that read each one. By default the last position of
                a decoder, or the first mask of an encoder.
            versus: Another output; the difference of the two logits is decomposed.
            head: The head, by default that of the view.
            neurons: Layers whose feed-forward part is split by neuron.

        Returns:
            The contributions.
        """
        from glassformer.inside.attribute.contributions import contributions

        return contributions(
            self._view, token, position=position, versus=versus, head=head, neurons=neurons
        )

    def gradient_x_input(
        self,
        token: int | str | None = None,
        *,
        position: int | None = None,
        head: str | None = None,
    ) -> Saliency:
        """Attributes a logit to the input tokens by gradient x input.

        Args:
            token: A token or label by index or name; None is the predicted one.
            position: The position, for heads that read each one.
            head: The head, by default that of the view.

        Returns:
            The attribution.
        """
        from glassformer.inside.attribute.gradients import gradient_x_input

        return gradient_x_input(self._view, token, position=position, head=head)

    def integrated_gradients(
        self,
        token: int | str | None = None,
        *,
        position: int | None = None,
        head: str | None = None,
        baseline: int | str | None = None,
        steps: int = 32,
        progress: Callable[[float], None] | None = None,
    ) -> Saliency:
        """Attributes a logit to the input tokens by integrated gradients.

        Args:
            token: A token or label by index or name; None is the predicted one.
            position: The position, for heads that read each one.
            head: The head, by default that of the view.
            baseline: The baseline token by name or id, or "zero" for zero vectors. By default the
                padding token, else the mask, unknown or end token.
            steps: The number of points on the path.
            progress: Called with the fraction done.

        Returns:
            The attribution.
        """
        from glassformer.inside.attribute.gradients import integrated_gradients

        return integrated_gradients(
            self._view,
            token,
            position=position,
            head=head,
            baseline=baseline,
            steps=steps,
            progress=progress,
        )

    def occlusion(
        self,
        token: int | str | None = None,
        *,
        position: int | None = None,
        head: str | None = None,
    ) -> InputEffects:
        """Leaves out each token and measures how far a logit falls.

        All texts without one token run in batches; each result is that of a forward pass alone.

        Args:
            token: A token or label by index or name; None is the predicted one.
            position: The position, for heads that read each one.
            head: The head, by default that of the view.

        Returns:
            The fall of the logit per token. Tokens that the tokenizer added are not left out, nor
            the token that a masked or tagging head predicts at.
        """
        from glassformer.inside.attribute.occlusion import occlusion

        return self._view.once(
            ("occlusion", token, position, head),
            lambda: occlusion(self._view, token, position=position, head=head),
        )

    def swap(
        self,
        token: int | str | None = None,
        *,
        position: int | None = None,
        head: str | None = None,
        replacements: Mapping[int, Sequence[int | str]] | None = None,
        stack: str | None = None,
        count: int = 4,
    ) -> InputEffects:
        """Swaps tokens for others and measures how far a logit falls.

        Args:
            token: A token or label by index or name; None is the predicted one.
            position: The position, for heads that read each one.
            head: The head, by default that of the view.
            replacements: The tokens to put at each position, by id or text. By default the
                `count` tokens other than the real one that the model itself finds most probable
                there: a decoder after the tokens before it, an encoder in place of a mask.
            stack: The stack that the positions of `replacements` count in, by default the last.
            count: The number of replacements per position.

        Returns:
            The mean fall of the logit per token, and every changed text in `changes`.

        >>> model.look("Tim gave the apple to").swap(" Sue", replacements={0: ["Tom"]}).changes
        """
        from glassformer.inside.attribute.occlusion import swap

        return self._view.once(
            ("swap", token, position, head, repr(replacements), stack, count),
            lambda: swap(
                self._view,
                token,
                position=position,
                head=head,
                replacements=replacements,
                stack=stack,
                count=count,
            ),
        )
