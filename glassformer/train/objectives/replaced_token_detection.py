"""Replaced-token detection (Clark et al., 2020).

A small generator fills in masked tokens, and the model predicts for every token whether it was
replaced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.core import Transformer
from glassformer.creation import create
from glassformer.errors import UnsupportedError
from glassformer.families import find_family, native, spec_from_config
from glassformer.families._shared import heads
from glassformer.model import Model
from glassformer.spec import BlockSpec, ModelSpec
from glassformer.train.batches.collate import pad
from glassformer.train.fused_cross_entropy import (
    exact,
    features,
    head_loss,
    head_of,
    head_output,
    output,
    rows_at_once,
)
from glassformer.train.objectives.masked import MaskedLM
from glassformer.train.objectives.masking import Masks
from glassformer.train.objectives.objective import TrainingBatch
from glassformer.train.objectives.registry import objective
from glassformer.train.objectives.row_random import RowRandom
from glassformer.train.objectives.rows import Example, RaggedColumn, Rows
from glassformer.train.objectives.text_inputs import (
    IGNORED,
    require_head,
)
from glassformer.weights.load import tie_weights

ELECTRA = Masks(mask_replace_prob=0.85, random_replace_prob=0.0)


@objective("replaced-token")
class ReplacedToken(MaskedLM):
    """ELECTRA's replaced-token detection.

    The generator is the model with `generator_size` times as many heads and proportionally
    narrower, on the same embeddings. It is trained to fill in masks; its predictions are sampled
    and replace the masked tokens in the text that the model reads. The model's loss is weighted by
    `discriminator_weight`. See `Masks` for the other options.

    A sample is found by inverting the cumulative distribution of the generator at a random number
    that was drawn for the position, so it depends only on the row, wherever that is computed.
    """

    pipeline_tag = "feature-extraction"
    usage = None

    def __init__(
        self,
        model: Model,
        *,
        generator_size: float = 0.25,
        discriminator_weight: float = 50.0,
        max_length: int | None = None,
        masks: Masks = ELECTRA,
    ) -> None:
        require_head(model, "replaced", "replaced-token", "ElectraForPreTraining")
        guesser = create(narrowed(model.spec, generator_size))
        super().__init__(
            Model(guesser, {}, "the generator", tokenizer=model.tokenizer),
            max_length=max_length,
            masks=masks,
        )
        self.generator: Transformer = guesser.to(model.device, model.dtype)
        share_embedding(self.generator, model)
        config, architecture = published(model, self.generator.spec)
        saved = Model(self.generator, config, architecture, tokenizer=model.tokenizer)
        self._companions = {"generator": saved}
        self.weights = {"lm": 1.0, "replaced": discriminator_weight}

    def companions(self) -> Mapping[str, Model]:
        return self._companions

    def vary(self, rows: Rows, draws: RowRandom) -> Rows:
        text = rows.columns["tokens"]
        noise = RaggedColumn(draws.uniform("noise", text.lengths), text.lengths)
        return super().vary(rows, draws) | {"text": text, "noise": noise}

    def collate(self, examples: Sequence[Example]) -> TrainingBatch:
        batch, slots = super().collate(examples), self.slots(examples)
        targets = batch.targets
        targets["text"], targets["real"] = pad(examples, "text", length=slots)
        noise, _ = pad(examples, "noise", 0.0, torch.float64, length=slots)
        # 24 bits, because a larger number could be rounded to 1
        noise = (noise.flatten()[targets["at"]] * 2**24).floor() / 2**24
        targets["noise"] = noise.float()
        batch.counts["replaced"] = float(targets["real"].sum())
        return batch

    def forward(self, model: nn.Module, batch: TrainingBatch) -> dict[str, Tensor]:
        targets, lm_head = batch.targets, head_of(self.generator, "lm")
        hidden = features(self.generator, batch.inputs, "lm")
        hidden = hidden.flatten(0, -2)[targets["at"]]
        guesses = drawn(lm_head, hidden.detach(), targets["noise"])
        read = fill_masks(targets["text"], targets["at"], guesses, targets["tokens"].ne(IGNORED))
        found = head_output(model, {**batch.inputs, "input_ids": read}, "replaced")
        scores = exact(found)
        wrong = F.binary_cross_entropy_with_logits(
            scores, read.ne(targets["text"]).to(scores.dtype), reduction="none"
        )
        return {
            "lm": head_loss(lm_head, hidden, targets["tokens"]),
            "replaced": (wrong * targets["real"]).sum(),
        }


@torch.no_grad()
def drawn(head: Any, hidden: Tensor, noise: Tensor) -> Tensor:
    """Returns samples of the head's distribution, [target], selected by noise in [0, 1)."""
    step = rows_at_once(len(hidden), head.spec.num_outputs, torch.float32, hidden.device)
    guesses = []
    for rows, noise_rows in zip(*(torch.split(x, step) for x in (hidden, noise)), strict=True):
        reached = output(head, rows).softmax(-1).cumsum(-1)
        found = torch.searchsorted(reached, noise_rows[:, None] * reached[:, -1:], right=True)
        guesses.append(found[:, 0].clamp(max=reached.shape[-1] - 1))
    return torch.cat(guesses)


def fill_masks(text: Tensor, at: Tensor, guesses: Tensor, real: Tensor) -> Tensor:
    """Returns the text with guesses at the predicted positions; padding goes to an extra slot."""
    padded = F.pad(text.flatten(), (0, 1))
    return padded.index_put((torch.where(real, at, len(padded) - 1),), guesses)[:-1].view_as(text)


def narrowed(model: ModelSpec, size: float) -> ModelSpec:
    """Returns the spec of the generator.

    It is a masked language model with a fraction of the heads and of the width, on embeddings as
    wide as the model's.
    """
    stack = model.encoder
    if stack is None or model.decoder is not None or not stack.attention_blocks:
        raise UnsupportedError("replaced-token needs an encoder alone, of blocks of attention.")
    before = stack.attention_blocks[0].attention.heads
    after = max(1, round(before * size))

    def less(number: int) -> int:
        return max(1, number * after // before)

    def narrow(block: BlockSpec) -> BlockSpec:
        keys = block.attention.kv_heads
        attention = replace(
            block.attention,
            heads=less(block.attention.heads),
            kv_heads=None if keys is None else less(keys),
        )
        ffn = replace(block.ffn, width=less(block.ffn.width))
        return replace(block, attention=attention, ffn=ffn)

    inner = stack.token_embedding.embedding_size or stack.width
    width = less(stack.width)
    embed = replace(stack.token_embedding, embedding_size=None if inner == width else inner)
    norm = stack.attention_blocks[0].norm
    return replace(
        model,
        encoder=replace(
            stack, width=width, embed=embed, blocks=tuple(map(narrow, stack.attention_blocks))
        ),
        heads=(heads.masked_language_model(embed.vocabulary, inner, "gelu", norm),),
        tied_weights=(("encoder.embed.token.weight", "heads.lm.out.weight"),),
    )


def share_embedding(generator: Transformer, model: Transformer) -> None:
    """Shares all embedding tables and the norm with the model, but not the projection."""
    assert generator.encoder is not None and model.encoder is not None
    for name, part in model.encoder.embed.named_children():
        if name != "project":
            setattr(generator.encoder.embed, name, part)
    tie_weights(generator)


def published(model: Model, spec: ModelSpec) -> tuple[dict[str, Any], str]:
    """Returns the generator's config and class.

    They are its family's if that has a class for it, or else the library's native ones.
    """
    assert spec.encoder is not None
    block = spec.encoder.attention_blocks[0]
    config = {
        **model.config,
        "hidden_size": spec.encoder.width,
        "num_attention_heads": block.attention.heads,
        "intermediate_size": block.ffn.width,
    }
    for name in find_family(model.config).CLASSES:
        if name.endswith("ForMaskedLM") and spec_from_config(config, name) == spec:
            return config, name
    return native.config_of(spec), next(iter(native.CLASSES))
