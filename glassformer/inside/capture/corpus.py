"""Splitting of many texts into windows and capture of their activations in batches.

A text longer than a window becomes several windows, each with the special tokens that the tokenizer
adds to a text. Only token ids are kept, so that many texts fit into memory; callers that consume
the iterator as a stream hold one batch at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from glassformer.core.input_rules import text_ids
from glassformer.errors import ConfigError, InputError
from glassformer.inside.capture.cancellation import check_cancelled
from glassformer.inside.capture.model_inputs import Text, encode_inputs
from glassformer.inside.capture.view import CaptureUntil, StopForwardError
from glassformer.tasks.model_protocol import TaskModel
from glassformer.tasks.windows import WindowFrame

LENGTH, TOKENS = 256, 2048  # tokens per window, and per batch
MASKS = {
    "input_ids": "attention_mask",
    "decoder_input_ids": "decoder_attention_mask",
}  # the mask input for each token input


@dataclass(frozen=True)
class CorpusPiece:
    """A text, or one window of it; `inputs` are the network's keyword arguments, [1, ...] each."""

    number: int  # index of the text
    start: int  # index of the window's first token in the text
    inputs: dict[str, Tensor]
    ids: dict[str, list[int | None]]  # token ids of each stack; None for audio or image

    @property
    def longest(self) -> int:
        return max(map(len, self.ids.values()))

    @property
    def can_pad(self) -> bool:
        """Whether all inputs are token rows, which can be padded: no audio, image or story."""
        rows = (x.ndim == 2 and not x.is_floating_point() for x in self.inputs.values())
        return all(rows) and "memory_tokens" not in self.inputs


def pieces(
    model: TaskModel,
    texts: Iterable[Text],
    targets: Iterable[Text] | None = None,
    max_length: int = LENGTH,
) -> Iterator[CorpusPiece]:
    """Yields the model inputs of each text, split into windows; empty texts are skipped.

    Args:
        model: The model that will read the texts.
        texts: The texts, as `look` accepts them.
        targets: One decoder text per text for an encoder-decoder model.
        max_length: The maximum number of tokens per window.

    Yields:
        The pieces in the order of the texts.
    """
    if isinstance(texts, str | Tensor):
        raise InputError("`texts` must be a list of texts, not one text; put it in brackets.")
    spec = model.spec
    both = spec.encoder is not None and spec.decoder is not None and not spec.shift_right
    if both and targets is None:
        raise InputError(
            f"{model.architecture} has an encoder and a decoder: give `targets`, one for each text."
        )
    written = iter(targets) if targets is not None else None
    for number, text in enumerate(texts):
        target = None if written is None else next(written, None)
        if written is not None and target is None:
            raise InputError(f"Text {number} has no target; give one for each text.")
        if isinstance(text, str) and not text.strip():
            continue
        windows = [(0, text)] if both else _windows(model, text, max_length)
        for start, window in windows:
            model_inputs = encode_inputs(model, window, target)
            stacks = {"encoder": model_inputs.encoder, "decoder": model_inputs.decoder}
            ids = {stack: [token.id for token in tokens] for stack, tokens in stacks.items()}
            yield CorpusPiece(number, start, model_inputs.inputs, ids)


def _windows(model: TaskModel, text: Text, length: int) -> Iterator[tuple[int, Text]]:
    """Yields the index of each window's first token, and the window's tokens."""
    known, stack = model.tokenizer, model.spec.last_stack
    if not isinstance(text, str) or known is None:
        yield 0, text
        return
    length = min(length, stack.context_length or length)
    whole = known.encode(text)
    if len(whole) <= length:
        yield 0, text
        return
    frame = WindowFrame.of(known)
    capacity = frame.capacity(length)
    ids = known.encode(text, special=False).ids
    for start in range(0, len(ids), capacity):
        yield start, [*frame.before.ids, *ids[start : start + capacity], *frame.behind.ids]


def batches(given: Iterable[CorpusPiece], tokens: int) -> Iterator[list[CorpusPiece]]:
    """Groups pieces in order into batches of at most `tokens` tokens including padding.

    Each batch has at least one piece.
    """
    batch: list[CorpusPiece] = []
    longest = 0
    for piece in given:
        size = max(longest, piece.longest)
        alone = not piece.can_pad or bool(batch and not batch[-1].can_pad)
        if batch and (alone or size * (len(batch) + 1) > tokens):
            yield batch
            batch, size = [], piece.longest
        batch.append(piece)
        longest = size
    if batch:
        yield batch


def collate(batch: Sequence[CorpusPiece], pad: int) -> dict[str, Tensor]:
    """Returns the network inputs for a batch; shorter pieces are padded on the right."""
    if len(batch) == 1:
        return batch[0].inputs
    found: dict[str, Tensor] = {}
    names = dict.fromkeys(name for piece in batch for name in piece.inputs)
    for name in names:
        rows = [piece.inputs.get(name, torch.zeros_like(text_ids(piece.inputs))) for piece in batch]
        fill = pad if name in MASKS else 0
        found[name] = pad_sequence([row[0] for row in rows], True, fill)
        if name in MASKS and len({row.shape[1] for row in rows}) > 1:
            sizes = torch.tensor([[row.shape[1]] for row in rows], device=rows[0].device)
            places = torch.arange(found[name].shape[1], device=sizes.device)
            found[MASKS[name]] = places < sizes
    return found


@torch.no_grad()
def captured(
    model: TaskModel, batch: Sequence[CorpusPiece], names: Sequence[str]
) -> dict[str, Tensor]:
    """Captures tensors of one stack for a batch of pieces.

    The forward pass ends after the last of the requested tensors.

    Returns:
        The tensors by name, [row, ...]; the rows are the real tokens of all pieces, concatenated.
    """
    check_cancelled()
    capture = CaptureUntil(names)
    with suppress(StopForwardError):
        model(**collate(batch, model.spec.tokens.pad or 0), tap=capture, heads=())
    if capture.left:
        raise ConfigError(f"The forward pass has no tensor {next(iter(capture.left))!r}.")
    sizes = [len(piece.ids[names[0].partition(".")[0]]) for piece in batch]
    longest = max(sizes)  # an adapter may prepend tokens to the text
    return {
        name: torch.cat(
            [row[-longest:][:size] for row, size in zip(capture.tensors[name], sizes, strict=True)]
        )
        for name in names
    }
