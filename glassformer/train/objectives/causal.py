"""Causal language modeling: predicts each token from those before it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from glassformer.core import Cache
from glassformer.data.record import Record
from glassformer.errors import DataError, UnsupportedError
from glassformer.model import Model
from glassformer.spec import HeadSpec, ModelSpec, RecurrentSpec
from glassformer.train.batches.collate import pad
from glassformer.train.fused_cross_entropy import exact, head_loss, head_of
from glassformer.train.objectives.objective import Objective, TrainingBatch
from glassformer.train.objectives.registry import objective
from glassformer.train.objectives.rows import Example, column_of
from glassformer.train.objectives.text_inputs import (
    IGNORED,
    TextFrame,
    several_documents,
    text_of,
    tokenizer_of,
)
from glassformer.train.objectives.usage_example import GENERATE


@objective("causal-lm")
class CausalLM(Objective):
    """Causal language modeling on rows of n + 1 tokens: the first n are read, the last n predicted.

    Documents that share a row do not see each other.

    With `memory_length`, that many tokens before the row are read first, without gradients, and are
    cached as the model's spec says (Transformer-XL). They are read again for every row, so that a
    run needs no state of its own to resume exactly.

    Auxiliary heads on inner layers and for tokens further ahead are used in early training (Al-Rfou
    et al., 2018): the loss of a head on layer l of n (counted from 1) counts until l/2n of training
    is done.

    `activation_regularization` and `temporal_regularization` are AWD-LSTM's regularizers (Merity et
    al., 2017, 4.6) for recurrent layers: they keep the outputs of the last layer small and, before
    dropout, similar from token to token. They are means over tokens and dimensions, and are not
    part of evaluation losses.
    """

    pipeline_tag = "text-generation"
    usage = GENERATE

    columns = ("text", "tokens")
    fields: ClassVar[Mapping[str, type[np.generic]]] = {"tokens": np.int32}
    batching = "concatenate"
    beyond = 1

    def __init__(
        self,
        model: Model,
        *,
        memory_length: int = 0,
        activation_regularization: float = 0.0,
        temporal_regularization: float = 0.0,
    ) -> None:
        super().__init__()
        self.frame = TextFrame(tokenizer_of(model))
        self.before = memory_length
        self.separates = (
            not model.spec.last_stack.empty_memory_slots
        )  # otherwise a memory is always present
        self.heads = {head.name: head for head in heads_of(model)}
        self.layers = len(model.spec.last_stack.order)
        self.weights = {name: head.loss_weight for name, head in self.heads.items()}
        own = {"activation": activation_regularization, "temporal": temporal_regularization}
        self.calm = {part: weight for part, weight in own.items() if weight}
        self.weights |= self.calm
        self.width = model.spec.last_stack.out_width
        if self.calm and not isinstance(model.spec.last_stack.blocks[-1], RecurrentSpec):
            raise UnsupportedError(
                f"objective.{next(iter(self.calm))} is for recurrent layers, such as AWD-LSTM's; "
                "leave it out.",
                field=f"objective.{next(iter(self.calm))}",
            )
        self.advance(0.0)

    def prepare(self, record: Record) -> Iterable[Example]:
        """Tokenizes a document and adds the end-of-text token if the vocabulary has one.

        A record of `tokens` is used as it is.
        """
        if "tokens" in record and "text" not in record:
            yield {"tokens": self._known(np.asarray(record["tokens"]))}
            return
        tokens = self.frame.ids(text_of(record))
        if record.get("begins", True):
            tokens = [*self.frame.before, *tokens]
        if record.get("ends", True):
            end = self.frame.tokenizer.special.get("eos")
            tokens += self.frame.behind or ([] if end is None else [end])
        if tokens:
            yield {"tokens": np.array(tokens, dtype=np.int32)}

    def _known(self, tokens: NDArray[Any]) -> NDArray[np.int32]:
        size = self.frame.tokenizer.size
        if not len(tokens) or tokens.min() < 0 or tokens.max() >= size:
            raise DataError(f"these are no tokens of a vocabulary of {size:,}")
        return tokens.astype(np.int32)

    def collate(self, examples: Sequence[Example]) -> TrainingBatch:
        rows, mask = pad(examples, "tokens", IGNORED)
        inputs = {"input_ids": rows[:, :-1].clamp(min=0)}
        if not bool(mask.all()):  # at the end of an evaluation
            inputs["attention_mask"] = mask[:, :-1]
        documents = None
        if self.separates and several_documents(examples, self.few_shapes):
            documents, _ = pad(examples, "documents", -1)
            inputs["document_ids"] = documents[:, :-1]
        if self.before and column_of(examples, "before").lengths.any():
            inputs["before"], real = pad(examples, "before", side="left")
            if not bool(real.all()):
                inputs["before_mask"] = real
            if documents is not None:
                inputs["position_ids"] = _positions(documents[:, :-1], real.sum(-1, keepdim=True))
        targets = {
            str(ahead): _ahead(rows, documents, ahead)
            for ahead in {head.prediction_offset for head in self.heads.values()}
        }
        counts = {
            name: float(targets[str(head.prediction_offset)].ne(IGNORED).sum())
            for name, head in self.heads.items()
        }
        read = mask[:, :-1]
        sizes = {"activation": read, "temporal": read[:, 1:] & read[:, :-1]}
        counts |= {part: float(sizes[part].sum()) * self.width for part in self.calm}
        return TrainingBatch(inputs, targets, counts, int(mask[:, 1:].sum()))

    def advance(self, progress: float) -> None:
        """Selects the heads whose loss currently counts."""
        self.counting = tuple(
            name for name, head in self.heads.items() if progress < bptt_window(head, self.layers)
        )

    def stage(self) -> tuple[str, ...]:
        return self.counting

    def forward(self, model: nn.Module, batch: TrainingBatch) -> dict[str, Tensor]:
        inputs: dict[str, Any] = dict(batch.inputs)
        cache = remembered(model, inputs)
        last = f"decoder.blocks.{self.layers - 1}.recurrent_out"
        seen: list[Tensor] = []

        def keep(name: str, value: Tensor) -> Tensor:
            if name == last:
                seen.append(value)
            return value

        if self.calm and self.training:
            inputs["tap"] = keep
        out = model(**inputs, past_key_values=cache, heads=self.counting, return_features=True)
        sums = {
            name: head_loss(
                head_of(model, name),
                out.head_outputs[name].flatten(0, -2),
                batch.targets[str(self.heads[name].prediction_offset)].flatten(),
            )
            for name in self.counting
        }
        if seen:
            found = activation_regularizer(
                out.last_hidden_state, seen[0], inputs.get("attention_mask")
            )
            sums |= {part: found[part] for part in self.calm}
        return sums


def activation_regularizer(
    hidden: Tensor, before: Tensor, mask: Tensor | None
) -> dict[str, Tensor]:
    """Returns sums of squares over real tokens of [batch, position, width].

    "activation" is the sum for the outputs, "temporal" that for the differences between consecutive
    tokens before dropout.
    """
    sizes, steps = exact(hidden).square(), exact(before).diff(dim=1).square()
    if mask is not None:
        sizes, steps = sizes * mask[..., None], steps * (mask[:, 1:] & mask[:, :-1])[..., None]
    return {"activation": sizes.sum(), "temporal": steps.sum()}


def heads_of(model: Model) -> tuple[HeadSpec, ...]:
    """Returns the heads of a decoder that predict tokens."""
    spec: ModelSpec = model.spec
    found = tuple(head for head in spec.heads if head.name == "lm" or head.auxiliary)
    if spec.decoder is None or spec.encoder is not None or not found:
        raise UnsupportedError(
            f"{model.architecture} is no decoder with a head that predicts tokens, which causal-lm "
            "needs; choose a class such as GPT2LMHeadModel, or another objective."
        )
    return found


def bptt_window(head: HeadSpec, layers: int) -> float:
    """Returns the fraction of training up to which a head's loss counts."""
    return float("inf") if head.depth is None else (head.depth + 1) / (2 * layers)


def _ahead(tokens: Tensor, documents: Tensor | None, ahead: int) -> Tensor:
    """Returns for every token that is read the one `ahead` places later, in the same document."""
    targets = torch.full_like(tokens[:, 1:], IGNORED)
    targets[:, : targets.shape[1] + 1 - ahead] = tokens[:, ahead:]
    if documents is not None:
        other = documents[:, :-ahead] != documents[:, ahead:]
        targets[:, : other.shape[1]][other] = IGNORED
    return targets


def _positions(documents: Tensor, before: Tensor) -> Tensor:
    """Returns the positions within each document.

    Those of the first one continue after the tokens before the row.
    """
    slots = torch.arange(documents.shape[1])
    new = torch.ones_like(documents, dtype=torch.bool)
    new[:, 1:] = documents[:, 1:] != documents[:, :-1]
    first = torch.where(new, slots, 0).cummax(-1).values
    return slots - first + before * (documents == documents[:, :1])


def remembered(model: Any, inputs: dict[str, Any]) -> Cache | None:
    """Returns a cache of the tokens before a row, computed without gradients.

    The tokens belong to the first document of the row. If there are more than the cache can keep,
    they are read in segments, each with the memory of the previous one, so that what is kept
    depends on what is not.
    """
    before, mask = inputs.pop("before", None), inputs.pop("before_mask", None)
    if before is None:
        return None
    rows = {"input_ids": before}
    if mask is not None:
        rows["attention_mask"] = mask
    if "document_ids" in inputs:
        rows["document_ids"] = inputs["document_ids"][:, :1].expand_as(before)
    cache: Cache = model.new_cache()
    cache.reuse_length = None  # rows do not overlap, so all of a segment comes before the next
    length = before.shape[1]
    longest = min(cache.limit or length, length)
    with torch.no_grad():
        for end in range(length - (length - 1) // longest * longest, length + 1, longest):
            part = slice(max(0, end - longest), end)
            model(
                **{name: row[:, part] for name, row in rows.items()},
                past_key_values=cache,
                heads=(),
            )
    torch.clear_autocast_cache()  # weights that were cast without gradients would get none
    return cache
