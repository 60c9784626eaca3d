"""What the harness runs over: every published class of every family, in each of its TINY configs.

A case holds the reference model, ours loaded from the folder that the reference saved, and texts of
different lengths; spectrograms or images where the model reads those, which are all of one size.
Results are given per text, without padding, so that any two ways of computing them can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import reference
import torch
import transformers
from torch import Tensor

import glassformer as gf
from glassformer.core.input_rules import input_name
from glassformer.families import classes_of, families, spec_from_config
from glassformer.spec import (
    AudioFramesSpec,
    BlockSparsePattern,
    MemoryHopSpec,
    ModelSpec,
    PatchEmbeddingSpec,
    StackSpec,
)

Results = dict[str, list[Tensor]]
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Name:
    model_type: str
    architecture: str
    index: int

    def __str__(self) -> str:
        return f"{self.architecture}-{self.index}"

    @property
    def config(self) -> dict[str, Any]:
        return {
            "model_type": self.model_type,
            **families()[self.model_type].TINY[self.index],
        }

    @property
    def spec(self) -> ModelSpec:
        return _spec_of(self)


@cache
def _spec_of(name: Name) -> ModelSpec:
    return spec_from_config(name.config, name.architecture)


NAMES = [
    Name(model_type, architecture, index)
    for model_type, family in families().items()
    for architecture in classes_of(family, model_type)
    for index in range(len(family.TINY))
]


def sample(names: Sequence[Name], once_per: str) -> list[Name]:
    """The first case of every model type, of every body, or of every class and every body."""
    keys: dict[str, Callable[[Name], object]] = {
        "type": lambda name: name.model_type,
        "body": lambda name: (name.model_type, name.spec.encoder, name.spec.decoder),
        "class": lambda name: name.architecture,
    }
    wanted = ("class", "body") if once_per == "class" else (once_per,)
    first = {(key, keys[key](name)): name for key in wanted for name in reversed(names)}
    chosen = set(first.values())
    return [name for name in names if name in chosen]


@dataclass
class Batch:
    """Texts padded to one length; the others where the model takes them. Of spectrograms and
    images, which have no padding, `mask` says how many vectors they become."""

    tokens: Tensor
    mask: Tensor
    segments: Tensor | None = None
    source: Tensor | None = None
    source_mask: Tensor | None = None
    languages: Tensor | None = None
    global_tokens: Tensor | None = None


class Case:
    def __init__(self, name: Name, folder: Path) -> None:
        self.name = name
        config = name.config
        if "QuestionAnswering" in name.architecture:
            config.pop("num_labels", None)  # the reference insists on two
        theirs = reference.make(config, name.architecture, seed=name.index)
        reference.save(theirs, folder)
        self.folder = folder
        self.take(theirs, gf.load(folder))

    @classmethod
    def of(cls, name: Name, theirs: Any, ours: gf.Model) -> Case:
        """A case of two models that are there."""
        case = cls.__new__(cls)
        case.name = name
        case.take(theirs, ours)
        return case

    def take(self, theirs: Any, ours: gf.Model) -> None:
        self.reference, self.model = theirs, ours
        self.spec = self.model.spec
        self.both = self.spec.encoder is not None and self.spec.decoder is not None
        self.choices = any(head.multiple_choice for head in self.spec.heads)
        self.hops = any(isinstance(layer, MemoryHopSpec) for layer in self.spec.last_stack.blocks)
        self.takes_segments = not self.both and bool(
            self.spec.last_stack.embed.segments
            or self.spec.last_stack.embed.segments_are_tokens
            or self.spec.last_stack.scores_segments
        )

    # --- texts -------------------------------------------------------------------------------

    def texts(self, lengths: Sequence[int], seed: int = 0) -> list[list[int]]:
        generator = torch.Generator().manual_seed(seed)
        special = self.spec.tokens
        taken = {special.pad, special.eos, special.start, special.bos}
        stacks = [s for s in (self.spec.encoder, self.spec.decoder) if s is not None]
        vocabulary = min(s.embed.vocabulary for s in stacks if s.embed.vocabulary)
        allowed = [i for i in range(vocabulary) if i not in taken]
        rows = [
            [allowed[int(torch.randint(len(allowed), (), generator=generator))] for _ in range(n)]
            for n in lengths
        ]
        if any(head.pooling == "eos" for head in self.spec.heads):
            for row in rows:
                row[-1] = special.eos
        return rows

    def prompts(self, lengths: Sequence[int], seed: int) -> list[list[int]] | list[Tensor]:
        """What the model writes about: texts, or spectrograms that its encoder reads."""
        if self.both and reads_signals(self.spec):
            return list(signals(self.spec.encoder, len(lengths), seed)[0])
        return self.texts(lengths, seed)

    def batch(self, lengths: Sequence[int], side: str) -> Batch:
        if self.spec.decoder is None and reads_signals(self.spec):
            return Batch(*signals(self.spec.encoder, len(lengths)))
        tokens, mask = self._padded(self.texts(lengths), side)
        batch = Batch(tokens, mask)
        if self.takes_segments:
            kinds = self.spec.last_stack.embed.segments or 5
            rows = [
                [(i + len(row)) % kinds for i in range(len(row))] for row in self.texts(lengths)
            ]
            batch.segments, _ = self._padded(rows, side, pad=0)
        if count := self.spec.last_stack.embed.languages:
            rows = [[i // 2 % count for i in range(n)] for n in lengths]
            batch.languages, _ = self._padded(rows, side, pad=0)
        if any(
            b.attention.separate_global_projections for b in self.spec.last_stack.attention_blocks
        ):
            rows = [[i % 7 == n % 4 for i in range(n)] for n in lengths]
            batch.global_tokens, _ = self._padded(rows, side, pad=False)
        if self.both and reads_signals(self.spec):
            batch.source, _ = signals(self.spec.encoder, len(lengths))
        elif self.both and not self.spec.shift_right:
            longer = [n + 3 for n in lengths]
            batch.source, batch.source_mask = self._padded(self.texts(longer, seed=1), side)
        if self.hops:
            batch.source, batch.source_mask = self._stories(lengths, side)
        if self.choices:  # two examples of rivals
            for key, value in vars(batch).items():
                if value is not None:
                    setattr(batch, key, value.unflatten(0, (2, -1)))
        return batch

    def _padded(
        self, rows: list[list[int]], side: str, pad: int | None = None
    ) -> tuple[Tensor, Tensor]:
        pad = (self.spec.tokens.pad or 0) if pad is None else pad
        longest = max(map(len, rows))
        fill = [[pad] * (longest - len(row)) for row in rows]
        real = [[True] * len(row) for row in rows]
        none = [[False] * len(row) for row in fill]
        join = (lambda a, b: a + b) if side == "right" else (lambda a, b: b + a)
        tokens = torch.tensor([join(row, more) for row, more in zip(rows, fill, strict=True)])
        mask = torch.tensor([join(row, more) for row, more in zip(real, none, strict=True)])
        return tokens, mask

    def _stories(self, lengths: Sequence[int], side: str) -> tuple[Tensor, Tensor]:
        """Of 9 sentences of 6 words, and of fewer each where texts differ in length too:
        [text, sentence, word]."""
        pad = self.spec.tokens.pad or 0
        tokens = torch.full((len(lengths), 9, 6), pad)
        mask = torch.zeros_like(tokens, dtype=torch.bool)
        for number in range(len(lengths)):
            counts = [6] * 9
            if len(set(lengths)) > 1:
                counts = [(number + i) % 6 + 1 for i in range(9 - number * 5 % 9)]
            start = 0 if side == "right" else 9 - len(counts)
            for at, words in enumerate(self.texts(counts, seed=number), start):
                part = slice(None, len(words)) if side == "right" else slice(-len(words), None)
                tokens[number, at, part] = torch.tensor(words)
                mask[number, at, part] = True
        return tokens, mask

    # --- results -----------------------------------------------------------------------------

    def inputs(self, batch: Batch) -> dict[str, Tensor]:
        """The batch as keyword arguments of `Model.forward`."""
        first = input_name(self.spec)
        if self.both and not self.spec.shift_right:
            named = {
                first: batch.source,
                "attention_mask": batch.source_mask,
                "decoder_input_ids": batch.tokens,
                "decoder_attention_mask": batch.mask,
            }
        else:
            named = {first: batch.tokens, "attention_mask": batch.mask}
        if self.hops:
            named |= {"memory_tokens": batch.source, "memory_tokens_mask": batch.source_mask}
        named |= {
            "token_type_ids": batch.segments,
            "language_ids": batch.languages,
            "global_attention_mask": batch.global_tokens,
        }
        return {name: value for name, value in named.items() if value is not None}

    @torch.no_grad()
    def ours(self, batch: Batch, model: Any = None, **options: Any) -> Results:
        out = (self.model if model is None else model)(**self.inputs(batch), **options)
        named = {**out.head_outputs, "hidden": out.last_hidden_state}
        if out.logits is not None:
            named["logits"] = out.logits
        return self.per_text(named, batch.mask)

    def theirs(self, batch: Batch) -> Results:
        """The reference on a batch that is padded on the right, or not at all. One that counts
        blocks of the padded batch is asked for each text by itself: ours counts a text's own. So
        are those with a memory, which take padding for text: Transformer-XL has no mask, XLNet's
        summary reads the last slot whatever it is, and its causal mask is one for the batch."""
        blocked = any(
            isinstance(b.pattern, BlockSparsePattern) for b in self.spec.last_stack.attention_blocks
        )
        remembers = self.spec.last_stack.memory is not None and not batch.mask.all()
        if remembers or (blocked and batch.mask[..., 0].numel() > 1):
            return self._text_by_text(batch)
        inputs: dict[str, Any] = reference.named(batch.tokens, batch.mask)
        if self.spec.last_stack.memory is not None:
            inputs.pop("attention_mask")
        if self.hops:
            inputs |= {"story": batch.source, "story_mask": batch.source_mask}
        elif batch.source is not None:
            inputs = {
                **reference.named(batch.source, batch.source_mask),
                "decoder_input_ids": batch.tokens,
                "decoder_attention_mask": batch.mask.long(),
            }
        if batch.segments is not None:
            inputs["token_type_ids"] = batch.segments
        if batch.languages is not None:
            inputs["langs"] = batch.languages
        if batch.global_tokens is not None:
            inputs["global_attention_mask"] = batch.global_tokens.long()
        if any(head.beam is not None for head in self.spec.heads):
            inputs["p_mask"] = (~batch.mask).float()  # else it looks for answers in the padding
            inputs["cls_index"] = batch.mask.sum(-1) - 1
        if "DoubleHeads" in self.name.architecture:
            inputs["mc_token_ids"] = batch.mask.sum(-1) - 1
            inputs.pop("attention_mask")  # GPT's cannot take one; causal, it never sees the padding
        results = reference.run(self.reference, inputs)
        if self.name.architecture == "FSMTModel":  # its hidden state is the logits
            results = {"logits": results["hidden"]}
        return self.per_text(results, batch.mask)

    def _text_by_text(self, batch: Batch) -> Results:
        together: Results = {}
        count = batch.mask[..., 0].numel()
        flat = {k: v.reshape(count, -1) for k, v in vars(batch).items() if v is not None}
        for i in range(count):
            one = {k: v[i][flat["mask"][i]][None] for k, v in flat.items()}
            if self.choices:
                one = {k: v[None] for k, v in one.items()}
            for key, values in self.theirs(Batch(**one)).items():
                together.setdefault(key, []).extend(values)
        if self.choices:  # one number for each text, and as many to an example as there are rivals
            together = {
                k: list(torch.cat(v).view(len(batch.mask), -1)) for k, v in together.items()
            }
        return together

    def theirs_alone(self, lengths: Sequence[int]) -> Results:
        """The reference on each text by itself, where no padding can matter."""
        whole = self.batch(lengths, "right")
        together: Results = {}
        for i in range(len(whole.tokens)):
            rows = {k: v[i : i + 1] for k, v in vars(whole).items() if v is not None}
            if not self.choices:
                longest = int(rows["mask"].sum())
                rows = {k: v if "source" in k else v[:, :longest] for k, v in rows.items()}
                if "source_mask" in rows and not self.hops:
                    longest = int(rows["source_mask"].sum())
                    rows |= {k: rows[k][:, :longest] for k in ("source", "source_mask")}
            for key, values in self.theirs(Batch(**rows)).items():
                together.setdefault(key, []).extend(values)
        return together

    def per_text(self, named: dict[str, Tensor], mask: Tensor) -> Results:
        results: Results = {}
        for key, value in named.items():
            if value.shape[: mask.ndim] == mask.shape:  # one result per position
                rows = zip(value.flatten(0, mask.ndim - 2), mask.flatten(0, -2), strict=True)
                results[key] = [row[real] for row, real in rows]
            else:
                results[key] = list(value)
        return results


def signals(stack: StackSpec, count: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Random inputs of the size that the model was made for, and a mask of what they become."""
    embed = stack.embed
    generator = torch.Generator().manual_seed(seed)
    if isinstance(embed, AudioFramesSpec):
        length = embed.position.length
        shape = (embed.num_mel_bins, 2 * length)
    else:
        length = 1 + embed.grid[0] * embed.grid[1]
        shape = (embed.channels, *embed.image_size)
    mask = torch.ones(count, length, dtype=torch.bool)
    return torch.randn(count, *shape, generator=generator), mask


def reads_signals(spec: ModelSpec) -> bool:
    return spec.encoder is not None and isinstance(
        spec.encoder.embed, AudioFramesSpec | PatchEmbeddingSpec
    )


def pads(name: Name) -> bool:
    """Reads texts, at least on one side; sound and images are never padded."""
    return name.spec.decoder is not None or not reads_signals(name.spec)


def in_transformers(name: Name) -> bool:
    """Has its reference where a user can have it too, for `glassformer check`."""
    return hasattr(transformers, name.architecture)


def is_sparse(name: Name) -> bool:
    """Has layers that leave out most of a long text."""
    patterns = [block.pattern for block in name.spec.last_stack.attention_blocks]
    return any(isinstance(p, BlockSparsePattern) or p.left is not None for p in patterns)


def is_decoder(name: Name) -> bool:
    """Reads from left to right, so that it can go on from a cache."""
    decoder = name.spec.decoder
    return decoder is not None and not name.spec.shift_right


def writes(name: Name) -> bool:
    """Has a head that says which token comes next."""
    heads = name.spec.heads
    rivals = any(head.multiple_choice for head in heads)
    return is_decoder(name) and not rivals and any(head.name == "lm" for head in heads)


def reads_another(name: Name) -> bool:
    """A decoder that can read another model's output."""
    spec = name.spec
    blocks = () if spec.decoder is None else spec.decoder.attention_blocks
    crosses = any(block.cross is not None for block in blocks)
    passes_on = ("Model", "LMHeadModel", "ForCausalLM")
    return crosses and spec.encoder is None and name.architecture.endswith(passes_on)


def difference(ours: Results, theirs: Results) -> float:
    """The largest difference over all results that the reference has."""
    shared = theirs.keys() & ours.keys()
    assert shared, f"nothing to compare: {ours.keys()} and {theirs.keys()}"
    largest = 0.0
    for key in shared:
        assert len(ours[key]) == len(theirs[key])
        for mine, other in zip(ours[key], theirs[key], strict=True):
            assert mine.shape == other.shape, (key, mine.shape, other.shape)
            assert torch.isfinite(mine).all()
            largest = max(largest, float((mine - other).abs().max()))
    return largest
