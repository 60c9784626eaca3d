"""The texts of a corpus that activate a neuron most, with the position and its context."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import dataclass

from torch import Tensor

from glassformer.errors import ConfigError, InputError
from glassformer.inside.capture.cancellation import report_progress
from glassformer.inside.capture.corpus import LENGTH, TOKENS, CorpusPiece, batches, captured, pieces
from glassformer.inside.capture.model_inputs import Text, token_text
from glassformer.inside.capture.named_tensor import check_index
from glassformer.inside.capture.names import full_name, in_stack, names_of
from glassformer.inside.displayable import Displayable
from glassformer.tasks.model_protocol import TaskModel

AROUND = 24  # tokens of context on either side

Found = tuple[float, int, int, int, list[int | None], list[float]]
"""Value, negated text index, position, index within the excerpt, the excerpt's ids and values."""


@dataclass(frozen=True)
class Excerpt:
    """The tokens around a neuron's largest activation in a text.

    Attributes:
        text: The index of the text.
        position: The position of the largest activation among all tokens of the text.
        value: The largest activation.
        tokens: The tokens around it.
        values: The activation at each of these tokens.
        at: The index of the largest activation within `tokens`.
    """

    text: int  # index of the text
    position: int
    value: float
    tokens: tuple[str, ...]
    values: tuple[float, ...]
    at: int


@dataclass(frozen=True)
class MaxActivating(Displayable):
    """The excerpts of each requested neuron, strongest first: `found[neuron]`."""

    name: str  # name of the tensor
    excerpts: dict[int, tuple[Excerpt, ...]]
    read: int  # number of texts read

    def __getitem__(self, neuron: int) -> tuple[Excerpt, ...]:
        if neuron not in self.excerpts:
            raise ConfigError(f"Neuron {neuron} was not requested, only {[*self.excerpts]}.")
        return self.excerpts[neuron]

    def __repr__(self) -> str:
        return (
            f"<max activating excerpts of {self.read} texts for neurons {[*self.excerpts]} of "
            f"{self.name}>"
        )

    def _repr_html_(self) -> str:
        from glassformer.inside.show.max_activating import html

        return html(self)

    @property
    def heading(self) -> str:
        return f"Strongest texts, {self.name}"


def max_activating(
    model: TaskModel,
    texts: Iterable[Text],
    layer: int,
    neuron: int | Sequence[int],
    k: int = 10,
    *,
    targets: Iterable[Text] | None = None,
    stack: str = "",
    tensor: str = "ffn_post",
    max_length: int = LENGTH,
    tokens_per_batch: int = TOKENS,
    progress: Callable[[int], None] | None = None,
) -> MaxActivating:
    """Finds the `k` texts in which a neuron, or each of several neurons, is most active.

    Only one batch and the current excerpts are held in memory, so `texts` may be any stream.

    Args:
        model: The model.
        texts: The texts.
        layer: The layer.
        neuron: The neuron, or several.
        k: The number of texts per neuron.
        targets: One decoder text per text for an encoder-decoder model.
        stack: "encoder" for the encoder of an encoder-decoder model.
        tensor: Another tensor than the feed-forward neurons, such as `resid_post`.
        max_length: The maximum number of tokens per window.
        tokens_per_batch: The maximum number of tokens per batch.
        progress: Called with the number of texts read.

    Returns:
        The excerpts of each neuron.

    >>> inside.max_activating(model, texts, layer=3, neuron=17)[17][0].tokens
    """
    name = full_name(model.spec, in_stack(stack, f"blocks.{layer}.{tensor}"))
    axes = names_of(model.spec).get(name, ())
    if len(axes) != 2 or axes[0] != "position":
        raise ConfigError(
            f"There is no {tensor} with a number for each token and neuron in layer {layer} "
            f"({name}); layers go from 0."
        )
    neurons = [neuron] if isinstance(neuron, int) else list(neuron)
    if not neurons or k < 1:
        raise ConfigError("Give at least one neuron and one text.")
    best: dict[int, list[Found]] = {one: [] for one in neurons}
    read, last = 0, -1
    for batch in batches(pieces(model, texts, targets, max_length), tokens_per_batch):
        values = captured(model, batch, [name])[name].float()
        for one in neurons:
            check_index(one, values.shape[1], "neuron")
        columns = values[:, neurons].T.cpu()  # [neuron, row]
        end = 0
        for piece in batch:
            ids = piece.ids[name.partition(".")[0]]
            rows = slice(end, end := end + len(ids))
            for one, column in zip(neurons, columns, strict=True):
                _keep(best[one], k, piece, ids, column[rows])
            read, last = read + (piece.number != last), piece.number
        report_progress(read, len(texts) if isinstance(texts, Sized) else None)
        if progress is not None:
            progress(read)
    if not read:
        raise InputError("There are no tokens in the texts.")
    ranked = {
        one: sorted(found, key=lambda each: each[:2], reverse=True) for one, found in best.items()
    }
    excerpts = {
        one: tuple(_excerpt(model, name, each) for each in found) for one, found in ranked.items()
    }
    return MaxActivating(name, excerpts, read)


def _keep(
    best: list[Found], k: int, piece: CorpusPiece, ids: Sequence[int | None], values: Tensor
) -> None:
    """Updates the heap of the best excerpts; one window per text, and the first of equal values."""
    at = int(values.argmax())
    value, number = float(values[at]), -piece.number
    mine = [i for i, found in enumerate(best) if found[1] == number]
    if value <= best[mine[0]][0] if mine else len(best) == k and best[0][:2] > (value, number):
        return
    first = max(0, at - AROUND)
    around = slice(first, at + AROUND + 1)
    found = (value, number, piece.start + at, at - first, [*ids[around]], values[around].tolist())
    if mine:
        best[mine[0]] = found
        heapq.heapify(best)
    elif len(best) < k:
        heapq.heappush(best, found)
    else:
        heapq.heapreplace(best, found)


def _excerpt(model: TaskModel, name: str, found: Found) -> Excerpt:
    value, number, position, at, ids, values = found
    known = model.tokenizer
    if known is not None and name.startswith("decoder."):
        known = known.target_tokenizer
    words = tuple(
        str(position - at + place) if id is None else token_text(known, id)
        for place, id in enumerate(ids)
    )
    return Excerpt(-number, position, value, words, tuple(values), at)
