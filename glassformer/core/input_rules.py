"""Rules for the input of a model: which one it reads, its question, its global tokens."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from glassformer.core.cache import Cache
from glassformer.core.loss import IGNORED
from glassformer.errors import ConfigError, InputError
from glassformer.spec import AudioFramesSpec, ModelSpec, PatchEmbeddingSpec, StackSpec

MASKED_SCORE = 1e6  # subtracted from scores, as in the published models


def check_inputs(
    spec: ModelSpec, input_ids: object, decoder_input_ids: object, encoder_hidden_states: object
) -> None:
    """Raises an error for token ids of another form, and for inputs that the model would ignore."""
    given = {"input_ids": input_ids, "decoder_input_ids": decoder_input_ids}
    for name, ids in given.items():
        if ids is not None and name in (input_name(spec), "decoder_input_ids"):
            _check_ids(name, ids)
    if decoder_input_ids is not None and not spec.is_encoder_decoder:
        raise InputError("This model has no decoder beside its encoder: drop decoder_input_ids.")
    if encoder_hidden_states is None:
        return
    if all(block.cross is None for block in spec.last_stack.attention_blocks):
        raise InputError("This model has no cross-attention: drop encoder_hidden_states.")
    if input_ids is not None and spec.is_encoder_decoder:
        raise InputError("Give the encoder's input_ids or its encoder_hidden_states, not both.")


def _check_ids(name: str, ids: object) -> None:
    if not isinstance(ids, Tensor):
        raise InputError(
            f"{name} must be a tensor, not {type(ids).__name__}; `tokenizer(text, "
            'return_tensors="pt")` returns one.'
        )
    if ids.ndim < 2 or ids.shape[-1] == 0 or ids.is_floating_point():
        raise InputError(
            f"{name} must be token ids of [batch, position], not {list(ids.shape)} of {ids.dtype}."
        )


def main_input(
    spec: ModelSpec,
    input_ids: Tensor | None,
    inputs_embeds: Tensor | None,
    pixel_values: Tensor | None,
    input_features: Tensor | None,
) -> tuple[Tensor | None, Tensor | None]:
    """Returns the input of the first stack, and vectors that replace its token table.

    The ids of given vectors are beyond the vocabulary, so that they are no special tokens. Both are
    None if nothing is given, which an encoder-decoder allows.
    """
    stack = spec.encoder or spec.last_stack
    name = input_name(spec)
    given = {
        "input_ids": input_ids,
        "inputs_embeds": inputs_embeds,
        "pixel_values": pixel_values,
        "input_features": input_features,
    }
    found = [key for key, value in given.items() if value is not None]
    fitting = ("input_ids", "inputs_embeds") if name == "input_ids" else (name,)
    if len(found) > 1 or not set(found) <= set(fitting):
        raise InputError(f"This model reads {' or '.join(fitting)}, not {' and '.join(found)}.")
    if not found:
        if spec.encoder is not None and spec.decoder is not None:
            return None, None
        raise InputError(f"Give the model its input as `{name}`.")
    if inputs_embeds is None:
        return given[found[0]], None
    shape = inputs_embeds.shape[:-1]
    ids = torch.full(shape, stack.embed.vocabulary, device=inputs_embeds.device)
    return ids, inputs_embeds


def input_name(spec: ModelSpec) -> str:
    """Returns the name of the first stack's input among the parameters of `forward`."""
    embed = (spec.encoder or spec.last_stack).embed
    if isinstance(embed, AudioFramesSpec):
        return "input_features"
    return "pixel_values" if isinstance(embed, PatchEmbeddingSpec) else "input_ids"


def default_decoder_input(
    spec: ModelSpec,
    tokens: Tensor | None,
    mask: Tensor | None,
    labels: Tensor | Mapping[str, Tensor] | None,
) -> Tensor:
    """Returns a decoder's input where none was given: the text or the labels, shifted right."""
    start: int | Tensor | None = spec.tokens.start
    from_last = spec.decoder_start == "last_token"
    if spec.shift_right and tokens is not None:
        return shifted_right(tokens, mask, last_tokens(tokens, mask) if from_last else start)
    if not isinstance(labels, Tensor):
        raise InputError(
            "This model has an encoder and a decoder: give the decoder's tokens as "
            "`decoder_input_ids`, or the `labels`."
        )
    known = labels.masked_fill(labels == IGNORED, spec.tokens.pad or 0)
    return shifted_right(known, None, last_tokens(known, labels != IGNORED) if from_last else start)


def as_mask(mask: Tensor | None) -> Tensor | None:
    """Converts an attention mask of numbers to one of booleans."""
    if mask is None:
        return None
    if not isinstance(mask, Tensor) or mask.ndim > 3:
        kind = list(mask.shape) if isinstance(mask, Tensor) else type(mask).__name__
        raise InputError(f"An attention mask must be a tensor of [batch, position], not {kind}.")
    return mask.bool()


def rows(x: Tensor | None) -> Tensor | None:
    """Joins the axes before the last, so that the choices of an example become rows."""
    return None if x is None else x.reshape(-1, x.shape[-1])


def check_masked_patches(stack: StackSpec, masked: Tensor | None) -> None:
    embed = stack.embed
    if masked is not None and not (isinstance(embed, PatchEmbeddingSpec) and embed.has_mask_token):
        raise InputError("This model has no vector for masked patches; drop bool_masked_pos.")


def text_ids(inputs: Mapping[str, Tensor]) -> Tensor:
    """Returns what the last stack reads among the inputs of `forward`."""
    for name in ("decoder_input_ids", "input_ids", "pixel_values"):
        if name in inputs:
            return inputs[name]
    return inputs["input_features"]


def find_question(spec: ModelSpec, tokens: Tensor, mask: Tensor | None) -> Tensor | None:
    """Marks the question, for models whose heads search the answer after it.

    Returns:
        [batch, position], True up to and including the first separator, or at the first token only
        if there is no separator. None for other models.
    """
    if not any(head.after_question for head in spec.heads):
        return None
    real = _real(tokens, mask)
    ends = _separators(spec, tokens, real)
    return _slots(tokens) <= torch.where(ends.any(-1), _first(ends), _first(real))[:, None]


def mask_question(scores: Tensor, question: Tensor, mask: Tensor | None) -> Tensor:
    """Lowers the scores, [batch, position, ...], of the question except its first token.

    The first token represents "no answer".
    """
    first = _slots(question) == _first(_real(question, mask))[:, None]
    low = (question & ~first)[:, -scores.shape[1] :, None]
    return scores - MASKED_SCORE * low


def find_global_tokens(
    spec: ModelSpec, tokens: Tensor, mask: Tensor | None, given: Tensor | None, cache: Cache | None
) -> Tensor | None:
    """Returns the tokens with global attention, [batch, position]: as given, or by the spec."""
    if given is None and spec.global_tokens == "none":
        return None
    if cache is not None:
        raise InputError(
            "Global attention needs the whole text in one pass, so it cannot be combined with a "
            "cache; leave one of the two out."
        )
    real = _real(tokens, mask)
    if given is not None:
        return given.bool() & real
    if spec.global_tokens == "first":
        return _slots(tokens) == _first(real)[:, None]
    ends = _separators(spec, tokens, real)
    if not torch.compiler.is_compiling() and not bool(ends.any(-1).all()):
        raise InputError(
            "This model finds the question in a text by the separator behind it (id "
            f"{spec.tokens.separator}), and a text has none; put it there, or name the global "
            "tokens as `global_attention_mask`."
        )
    slots, end = _slots(tokens), _first(ends)[:, None]
    return (slots < end if spec.global_tokens == "question" else slots > end + 1) & real


def last_slots(real: Tensor) -> Tensor:
    """Returns the slot of the last real token, [batch]."""
    return (torch.arange(real.shape[1], device=real.device) * real).argmax(-1)


def last_tokens(tokens: Tensor, mask: Tensor | None) -> Tensor:
    """Returns the last real token of every text, [batch, 1]."""
    return tokens[:, -1:] if mask is None else tokens.gather(1, last_slots(mask)[:, None])


def shifted_right(tokens: Tensor, mask: Tensor | None, start: int | Tensor | None) -> Tensor:
    """Shifts a text right by one, and puts the start token before it."""
    if start is None:
        raise ConfigError(
            "The model's config has no decoder_start_token_id, which its decoder starts from."
        )
    before = torch.nn.functional.pad(tokens[:, :-1], (1, 0))
    if mask is None:
        mask = torch.ones_like(tokens, dtype=torch.bool)
    return torch.where(torch.nn.functional.pad(mask[:, :-1], (1, 0)), before, start)


def _separators(spec: ModelSpec, tokens: Tensor, real: Tensor) -> Tensor:
    return tokens.eq(-1 if spec.tokens.separator is None else spec.tokens.separator) & real


def _first(flags: Tensor) -> Tensor:
    return flags.int().argmax(-1)


def _slots(tokens: Tensor) -> Tensor:
    return torch.arange(tokens.shape[1], device=tokens.device)


def _real(tokens: Tensor, mask: Tensor | None) -> Tensor:
    return torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask
