"""Conversion of a text into model inputs and labeled tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.core.audio_image_embedding import SignalEmbedding
from glassformer.core.input_rules import input_name, last_tokens, shifted_right
from glassformer.core.stack import Stack
from glassformer.errors import ConfigError, InputError
from glassformer.generate.prompt import as_ids
from glassformer.spec import MemoryHopSpec
from glassformer.tasks.model_protocol import TaskModel
from glassformer.text import Tokenizer

Text = str | tuple[str, str] | Sequence[int] | Tensor
"""A text, a pair of texts, token ids, or the audio or image input of an encoder."""


@dataclass(frozen=True)
class InputToken:
    """A token of the input.

    `text` is the token as written, including a leading space if the vocabulary has one there.
    """

    id: int | None  # None for a piece of audio or an image
    text: str
    special: bool = False  # added by the tokenizer, or not part of a text
    segment: int = 0  # 1 in the second text of a pair


@dataclass(frozen=True)
class ModelInputs:
    """The inputs of a forward pass.

    `inputs` are the keyword arguments of the network; `encoder` and `decoder` are the tokens of
    each stack.
    """

    inputs: dict[str, Tensor]
    encoder: tuple[InputToken, ...] = ()
    decoder: tuple[InputToken, ...] = ()
    story: tuple[InputToken, ...] = ()  # one sentence each, for a memory network

    def length(self, name: str, axis: str) -> int:
        """The number of positions along a tensor's axis that belong to the text itself.

        Tokens prepended by an adapter, or an empty memory slot, may precede them.
        """
        queries, keys = self.tokens_along(name)
        return len(keys if axis == "key" else queries)

    def tokens_along(self, name: str) -> tuple[tuple[InputToken, ...], tuple[InputToken, ...]]:
        """The tokens at the query and at the key positions of a tensor."""
        own = self.encoder if name.startswith("encoder.") else self.decoder
        return own, self.encoder if ".cross." in name else self.story or own

    @property
    def last(self) -> tuple[InputToken, ...]:
        """The tokens of the stack whose output the heads read."""
        return self.decoder or self.encoder


def encode_inputs(model: TaskModel, text: Text, target: Text | None = None) -> ModelInputs:
    """Tokenizes `text` (and `target`) and builds the inputs of a forward pass.

    Args:
        model: The model that will read the inputs.
        text: The input text; a story with one sentence per line for a memory network. For a
            decoder, "" is its start token alone.
        target: The decoder text of an encoder-decoder model, or the question to a memory network.

    Returns:
        The model inputs with their tokens.
    """
    spec = model.spec
    both = model.encoder is not None and model.decoder is not None
    if any(isinstance(layer, MemoryHopSpec) for layer in spec.last_stack.blocks):
        return _story(model, text, target)
    if target is not None and (not both or spec.shift_right):
        raise InputError(
            f"{model.architecture} reads one text: leave `target` out (a pair is a tuple of two)."
        )
    if both and not spec.shift_right:
        source, tokens = _stack_input(model, model.encoder, text)
        begun = decoder_beginning(model, source)
        written = [] if target is None else _target_ids(model, target)
        ids = [*begun, *written]
        known = None if model.tokenizer is None else model.tokenizer.target_tokenizer
        _check(model.decoder, ids, "target")
        inputs = {
            input_name(spec): source.to(model.device),
            "decoder_input_ids": _row(ids, model),
        }
        return ModelInputs(inputs, tokens, _shown(known, ids, set(range(len(begun)))))
    stack = model.encoder if model.encoder is not None else model.decoder
    row, tokens = _stack_input(model, stack, text)
    inputs = {input_name(spec): row.to(model.device)}
    assert stack is not None
    if not isinstance(text, Tensor) and any(token.segment for token in tokens):
        if stack.spec.embed.segments > 1 or stack.spec.scores_segments:
            inputs["token_type_ids"] = _row([token.segment for token in tokens], model)
    elif stack.spec.scores_segments:
        inputs["token_type_ids"] = torch.zeros_like(inputs["input_ids"])
    if not both:
        return ModelInputs(inputs, *((tokens, ()) if model.decoder is None else ((), tokens)))
    last = last_tokens(row, None) if spec.decoder_start else None
    moved = shifted_right(row, None, spec.tokens.start if last is None else last)
    return ModelInputs(inputs, tokens, _shown(model.tokenizer, moved[0].tolist(), {0}))


def _stack_input(
    model: TaskModel, stack: Stack | None, text: Text
) -> tuple[Tensor, tuple[InputToken, ...]]:
    """The input of one stack, [1, position] or a signal, and its tokens."""
    assert stack is not None
    if isinstance(stack.embed, SignalEmbedding):
        if not isinstance(text, Tensor) or not text.is_floating_point():
            raise InputError(
                f"{model.architecture} reads audio or images: give it the output of "
                "model.processor."
            )
        whole = text if text.ndim > stack.embed.axes else text[None]
        count = stack.embed.length(whole)
        return whole, tuple(InputToken(None, str(place)) for place in range(count))
    parts = text if isinstance(text, tuple) else (text,)
    if not all(isinstance(part, str) for part in parts):
        ids = as_ids(text)
        _check(stack, ids, "text")
        return torch.tensor([ids]), _shown(model.tokenizer, ids, set())
    if len(parts) > 2:
        raise InputError(f"A model reads a text or a pair of texts, not {len(parts)}.")
    start = start_token(model) if parts == ("",) and model.encoder is None else None
    if start is not None:
        return torch.tensor([[start]]), _shown(model.tokenizer, [start], {0})
    if not parts or not all(parts):
        raise InputError("The text is empty; give the model something to read.")
    if model.tokenizer is None:
        raise InputError(
            f"{model.architecture} has no tokenizer; give the text as a list of token ids."
        )
    encoded = model.tokenizer.encode(*parts)
    _check(stack, encoded.ids, "text")
    added = {i for i, flag in enumerate(encoded.special_mask) if flag}
    tokens = _shown(model.tokenizer, encoded.ids, added, encoded.segments)
    return torch.tensor([encoded.ids]), tokens


def start_token(model: TaskModel) -> int | None:
    """Returns the token that a decoder's unconditional texts start from, if there is one."""
    special, known = model.spec.tokens, model.tokenizer
    own = None if known is None else known.special.get("bos")
    size = model.spec.last_stack.embed.vocabulary
    order = (special.start, own, special.bos, special.eos)
    return next((id for id in order if id is not None and id < size), None)


def _check(stack: Stack | None, ids: Sequence[int], what: str) -> None:
    assert stack is not None
    if not ids:
        raise InputError(f"The {what} is empty; give the model something to read.")
    size = stack.spec.embed.vocabulary
    if not all(0 <= id < size for id in ids):
        raise InputError(
            f"The {what} has a token id outside the vocabulary, whose ids are 0 to {size - 1}."
        )
    table = stack.spec.embed.position
    taken: int = 0 if stack.wrapper is None else stack.wrapper.num_virtual_tokens(stack)
    if table is not None and len(ids) > table.length - taken:
        capacity = table.length - taken
        raise InputError(
            f"The {what} has {len(ids)} tokens, {len(ids) - capacity} more than the model's "
            f"{capacity} positions; shorten it."
        )


def decoder_beginning(model: TaskModel, source: Tensor) -> list[int]:
    """The tokens the decoder starts from; a generative model's generator decides them."""
    if model.spec.lm_head is not None:
        generator = model.generator
        given: Any = source[0] if source.is_floating_point() else tuple(source[0].tolist())
        return generator.beginning(given, generator.resolve_config({}))
    special = model.spec.tokens
    start = special.start if special.start is not None else special.bos
    if start is None:
        raise ConfigError(
            f"The config of {model.architecture} has no decoder_start_token_id, which its decoder "
            "starts from; `target` needs a model that has it."
        )
    return [start]


def _target_ids(model: TaskModel, target: Text) -> list[int]:
    """The target tokens after the start tokens; the end token is predicted, not read."""
    if not isinstance(target, str):
        return as_ids(target)
    if model.tokenizer is None:
        raise InputError(
            f"{model.architecture} has no tokenizer; give the target as a list of token ids."
        )
    encoded = model.tokenizer.target_tokenizer.encode(target)
    ended = encoded.ids and encoded.special_mask[-1]
    return encoded.ids[:-1] if ended else encoded.ids


def _shown(
    tokenizer: Tokenizer | None,
    ids: Sequence[int],
    added: set[int],
    segments: Sequence[int] | None = None,
) -> tuple[InputToken, ...]:
    special = frozenset[int]() if tokenizer is None else tokenizer.special_ids
    return tuple(
        InputToken(id, token_text(tokenizer, id), i in added or id in special, segment)
        for i, (id, segment) in enumerate(zip(ids, segments or [0] * len(ids), strict=True))
    )


def token_text(tokenizer: Tokenizer | None, id: int) -> str:
    """Returns a token as written, or its vocabulary name if it is not a complete character."""
    if tokenizer is None or id >= tokenizer.size:
        return f"#{id}"
    name, text = tokenizer.token(id), tokenizer.decode([id], special=True)
    if "\ufffd" in text or not text:
        return name if name.strip("▁") else " " * len(name)
    return f" {text}" if name.startswith("▁") and text[:1] != " " else text


def _story(model: TaskModel, text: Text, target: Text | None) -> ModelInputs:
    """The inputs of a memory network.

    `text` is a story with one sentence per line, `target` the question.
    """
    if target is None:
        raise InputError(
            f"{model.architecture} answers from a story: give the story as the text, one sentence "
            "per line, and the question as `target`."
        )
    if isinstance(text, Tensor):
        rows = [as_ids(row) for row in text]
    elif isinstance(text, str) and model.tokenizer is not None:
        rows = [model.tokenizer.ids(line) for line in text.splitlines() if line.strip()]
    else:
        raise InputError(
            f"{model.architecture} reads a story as lines of text, for which it needs a tokenizer, "
            "or as a tensor of word ids, [sentence, word]."
        )
    if not any(rows):
        raise InputError("The text is empty; give the model something to read.")
    known = model.tokenizer
    question_ids = (
        as_ids(target) if known is None or not isinstance(target, str) else known.ids(target)
    )
    longest = max(map(len, rows))
    pad = model.spec.tokens.pad or 0
    words = torch.tensor([[*row, *[pad] * (longest - len(row))] for row in rows])
    real = torch.tensor([[i < len(row) for i in range(longest)] for row in rows])
    sentences = tuple(
        InputToken(None, " ".join(token_text(known, id).strip() for id in row)) for row in rows
    )
    inputs = {
        "input_ids": _row(question_ids, model),
        "memory_tokens": words[None].to(model.device),
        "memory_tokens_mask": real[None].to(model.device),
    }
    question = (InputToken(None, " ".join(token_text(known, id).strip() for id in question_ids)),)
    if model.decoder is None:
        return ModelInputs(inputs, encoder=question, story=sentences)
    return ModelInputs(inputs, decoder=question, story=sentences)


def _row(ids: Sequence[int], model: Any) -> Tensor:
    return torch.tensor([list(ids)], device=model.device)
