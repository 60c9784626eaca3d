"""The output of a forward pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from torch import Tensor
from torch.utils import _pytree

from glassformer.core.cache import Cache
from glassformer.core.hooks import ActivationCapture


@dataclass(kw_only=True)
class ModelOutput:
    """The result of a forward pass. Fields are also items, by name or by index among those set.

    Attributes:
        loss: The loss, if labels were given.
        logits: The output of the first computed head that has outputs.
        last_hidden_state: The last hidden state of the last stack, [batch, position, width].
        hidden_states: The embedding and the output of each layer of the last stack, on request.
        attentions: The attention weights of each layer of the last stack, on request.
        cross_attentions: The cross-attention weights of each layer, on request.
        encoder_last_hidden_state: The encoder's output, which a later call accepts as
            `encoder_hidden_states`.
        encoder_hidden_states: As `hidden_states`, of the encoder of an encoder-decoder.
        encoder_attentions: As `attentions`, of the encoder of an encoder-decoder.
        past_key_values: The cache that was given or created.
        head_outputs: The output of every computed head, by name.
    """

    loss: Tensor | None = None
    logits: Tensor | None = None
    last_hidden_state: Tensor
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None
    cross_attentions: tuple[Tensor, ...] | None = None
    encoder_last_hidden_state: Tensor | None = None
    encoder_hidden_states: tuple[Tensor, ...] | None = None
    encoder_attentions: tuple[Tensor, ...] | None = None
    past_key_values: Cache | None = None
    head_outputs: dict[str, Tensor] = field(default_factory=dict)

    def set_hidden_states(
        self, hidden: Tensor, states: Sequence[Tensor] | None, encoder_states: list[Tensor] | None
    ) -> None:
        """Sets the hidden states of all layers; the last is that behind the final norm.

        Args:
            hidden: The last hidden state of the last stack.
            states: The embedding and the outputs of its layers.
            encoder_states: Those of the encoder of an encoder-decoder.
        """
        if states is not None:
            self.hidden_states = (*states[:-1], hidden)
        if encoder_states is not None and self.encoder_last_hidden_state is not None:
            self.encoder_hidden_states = (*encoder_states[:-1], self.encoder_last_hidden_state)

    def set_attentions(self, patterns: ActivationCapture, stack: str) -> None:
        """Sets the attention weights of all layers; `stack` is the name of the last stack."""
        self.attentions = patterns.matching(f"{stack}.blocks.*.pattern", ".cross.")
        self.cross_attentions = patterns.matching("decoder.blocks.*.cross.pattern") or None
        if self.encoder_last_hidden_state is not None:
            self.encoder_attentions = patterns.matching("encoder.blocks.*.pattern")

    def __getitem__(self, key: str | int | slice) -> Any:
        return dict(self.items())[key] if isinstance(key, str) else self.to_tuple()[key]

    def __len__(self) -> int:
        return len(self.keys())

    def __contains__(self, name: str) -> bool:
        return name in self.keys()

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def items(self) -> Iterator[tuple[str, Any]]:
        """Yields the names and values of the fields that are set."""
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None and each.name != "head_outputs":
                yield each.name, value

    def keys(self) -> list[str]:
        return [name for name, _ in self.items()]

    def values(self) -> tuple[Any, ...]:
        return self.to_tuple()

    def get(self, name: str, default: Any = None) -> Any:
        """Returns a field, or `default` if it is not set."""
        return dict(self.items()).get(name, default)

    def to_tuple(self) -> tuple[Any, ...]:
        """Returns the values of the fields that are set, in order."""
        return tuple(value for _, value in self.items())


_pytree.register_dataclass(ModelOutput)  # so that DDP and FSDP find the tensors in it
