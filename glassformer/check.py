"""The proof a user can run: the same folder in the reference implementation, number by number."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import GlassformerError
from glassformer.model import Model, find_folder, load

TOLERANCE = 1e-5


@dataclass
class Comparison:
    """The largest absolute differences; None where there is nothing to compare."""

    reference: str
    logits: float | None
    hidden: float | None
    same_tokens: bool | None
    texts: int

    @property
    def equal(self) -> bool:
        close = all(d is None or d <= TOLERANCE for d in (self.logits, self.hidden))
        return close and self.same_tokens is not False


TEXTS = (
    "The animal didn't cross the street because it was too tired.",
    "time flies like an arrow",
    "Thanks for all the",
    "je suis étudiant",
    "水能载舟，亦能覆舟。",
)


def check(source: str | Path, texts: tuple[str, ...] = TEXTS, seed: int = 0) -> Comparison:
    """Runs both implementations in float32 on these texts (or, without a tokenizer, random ids)."""
    transformers = import_reference()
    folder = find_folder(source)
    model = load(folder, dtype=torch.float32)
    theirs = load_reference(transformers, folder, model.architecture)
    same_tokens = None
    rows = None
    if model.tokenizer is not None:
        rows = [model.tokenizer.encode(text).ids for text in texts]
        reference_tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        same_tokens = rows == [reference_tokenizer(text)["input_ids"] for text in texts]
    batch = make_batch(model, rows, seed)
    logits, hidden = compare(model, theirs, *batch)
    return Comparison(
        reference=f"transformers {transformers.__version__}",
        logits=logits,
        hidden=hidden,
        same_tokens=same_tokens,
        texts=len(batch[0]),
    )


def import_reference() -> Any:
    try:
        import transformers
    except ImportError:
        raise GlassformerError(
            "The reference implementation is not installed; pip install 'glassformer[check]'."
        ) from None
    reference: Any = transformers
    reference.logging.set_verbosity_error()
    return reference


def load_reference(transformers: Any, folder: Path, architecture: str) -> Any:
    known = getattr(transformers, architecture, None)
    if known is None:
        raise GlassformerError(
            f"transformers {transformers.__version__} has no {architecture} to compare with."
        )
    model = known.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    return model.eval()


def make_batch(model: Model, rows: list[list[int]] | None, seed: int) -> tuple[Tensor, Tensor]:
    """Token ids of [text, position], padded on the right, and their mask."""
    spec = model.spec
    stack = spec.encoder or spec.last_stack
    if rows is None:
        generator = torch.Generator().manual_seed(seed)
        vocabulary = min(s.embed.vocabulary for s in (spec.encoder, spec.decoder) if s is not None)
        ids = [i for i in range(vocabulary) if i not in vars(spec.tokens).values()]
        chosen = torch.randint(len(ids), (4, 12), generator=generator).tolist()
        rows = [[ids[i] for i in row[: 6 + 2 * n]] for n, row in enumerate(chosen)]
        if any(head.pick == "eos" for head in spec.heads) and spec.tokens.eos is not None:
            rows = [[*row[:-1], spec.tokens.eos] for row in rows]
    table = stack.embed.position
    limit = None if table is None else table.length
    rows = [row[:limit] for row in rows]
    longest = max(map(len, rows))
    pad = spec.tokens.pad or 0
    tokens = torch.tensor([row + [pad] * (longest - len(row)) for row in rows])
    mask = torch.arange(longest) < torch.tensor([[len(row)] for row in rows])
    return tokens, mask


@torch.no_grad()
def compare(
    model: Model, theirs: Any, tokens: Tensor, mask: Tensor
) -> tuple[float | None, float | None]:
    spec = model.spec
    both = spec.encoder is not None and spec.decoder is not None and not spec.shift_text
    if any(head.choices for head in spec.heads):
        tokens, mask = tokens[None], mask[None]
    inputs: dict[str, Any] = {"input_ids": tokens, "attention_mask": mask.long()}
    ours_in: dict[str, Any] = {"tokens": tokens, "mask": mask}
    if both:
        start = torch.full_like(tokens[:, :1], spec.tokens.start or 0)
        target = torch.cat((start, tokens[:, :-1]), -1)
        inputs |= {"decoder_input_ids": target, "decoder_attention_mask": mask.long()}
        ours_in = {"tokens": target, "mask": mask, "source": tokens, "source_mask": mask}
    if tokens.ndim == 3 and "DoubleHeads" in model.architecture:
        inputs = {"input_ids": tokens, "mc_token_ids": mask.sum(-1) - 1}
    reference = theirs(**inputs, output_hidden_states=True)
    out = model.net(**ours_in)
    pairs = [
        (out.heads[name], reference[key])
        for name, key in (
            ("lm", "prediction_logits"),
            ("next_sentence", "seq_relationship_logits"),
            ("choose", "mc_logits"),
        )
        if reference.get(key) is not None
    ]
    if reference.get("logits") is not None:
        pairs.append((out.logits, reference["logits"]))
    if reference.get("start_logits") is not None:
        pairs.append(
            (out.logits, torch.stack((reference["start_logits"], reference["end_logits"]), -1))
        )
    logits = max((largest(mine, other, mask) for mine, other in pairs), default=None)
    states = reference.get("last_hidden_state")
    if states is None:
        states = (
            reference.get("decoder_hidden_states") or reference.get("hidden_states") or [None]
        )[-1]
    if states is None or states.shape[-1] != out.hidden.shape[-1]:
        return logits, None
    return logits, largest(out.hidden.view(states.shape), states, mask.view(states.shape[:-1]))


def largest(ours: Tensor, theirs: Tensor, mask: Tensor) -> float:
    """At real tokens only; what stands at padding is nobody's result."""
    difference = (ours - theirs).abs()
    if difference.shape[: mask.ndim] == mask.shape:
        difference = difference[mask]
    return float(difference.max())
