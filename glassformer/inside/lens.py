"""Inside room, the logit lens: the stream of every layer, read as if it were the last.

After attention and after feed-forward, at every position: which tokens would be said, how probable
a chosen one is, and how far that is from what is said in the end. Logits are made some rows at a
time, so that memory does not grow with text and layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.errors import GlassformerError
from glassformer.inside.named import Named, check_index
from glassformer.inside.names import names_of
from glassformer.inside.pauses import pause
from glassformer.inside.predictions import language_head, output_id, output_text
from glassformer.spec import Head

if TYPE_CHECKING:
    from glassformer.inside.view import View

ROOM = 1 << 22  # logits at once: many more would be written to memory, and read from there again
STAGES = {"embed": "embedding", "resid_mid": "attention", "resid_post": "feed-forward"}


@dataclass(frozen=True, eq=False)
class Lens:
    """Everything is [stage, position]. `stages` are the embedding, then attention and feed-forward
    of each layer; `best` are the most probable tokens, [stage, position, rank]. `probability`,
    `logit` and `rank` (0 is the best) are those of the token chosen, or else of what is predicted
    there in the end, -1 where none is chosen; `divergence` is KL(end, here) in nats; `norm` is the
    length of the stream's vector."""

    stages: tuple[tuple[int | None, str], ...]  # layer, and what stands before it
    positions: tuple[int, ...]
    tokens: tuple[str, ...]  # that are read there
    best: Named
    best_probability: Named
    chosen: Tensor  # [position]
    probability: Named
    logit: Named
    rank: Named
    divergence: Named
    entropy: Named
    norm: Named
    words: dict[int, str]

    def text(self, stage: int, position: int, rank: int = 0) -> str:
        """The token that a stage would say, counted in stages and positions of this lens."""
        return self.words[int(self.best.array[stage, position, rank])]

    @property
    def names(self) -> list[str]:
        return [part if layer is None else f"{layer} {part}" for layer, part in self.stages]

    def __repr__(self) -> str:
        return f"<lens of {len(self.stages)} stages and {len(self.positions)} positions>"

    def _repr_html_(self) -> str:
        from glassformer.inside.show.grid import lens_html

        return lens_html(self)

    def save_html(self, path: str | Path) -> None:
        """One file that needs nothing else."""
        from glassformer.inside.show.grid import lens_html
        from glassformer.inside.show.page import save

        save(path, "Logit lens", lens_html(self))


@torch.no_grad()
def lens(
    view: View,
    *,
    token: int | str | Sequence[int] | None = None,
    top: int = 5,
    positions: Sequence[int] | None = None,
    head: str | None = None,
) -> Lens:
    """`token`: whose probability and rank are followed, one for all positions, or one for each (-1
    for none). `positions`: those alone."""
    spec = language_head(view, head)
    size = len(view.tokens)
    places = list(range(size)) if positions is None else list(positions)
    for place in places:
        check_index(place, size, "position")
    names = stage_names(view)
    view.read_through(names)
    rows = torch.tensor([place % size for place in places], device=view.output.hidden.device)
    ends = view.output.heads[spec.name][0][rows]  # [position, token]
    if token is None:
        chosen = ends.argmax(-1)
    elif not isinstance(token, int | str):
        if len(token) != len(places):
            raise GlassformerError(f"{len(token)} tokens are chosen for {len(places)} positions.")
        chosen = torch.tensor(list(token), device=rows.device)
    else:
        chosen = torch.full_like(rows, output_id(view, spec, token, ends[0]))
    streams = torch.stack([view.seen[name][0, rows] for name in names]).flatten(0, 1)
    end = ends.float().log_softmax(-1)
    parts = []
    for at, logits in pieces(view, spec, streams):
        there = torch.arange(at, at + len(logits), device=rows.device) % len(rows)
        parts.append(_read(logits, end[there], chosen[there], top))
    best, likely, probability, logit, rank, divergence, entropy = (
        _by_stage(torch.cat(each), len(names)) for each in zip(*parts, strict=True)
    )
    stages = tuple(stage_of(name) for name in names)
    words = tuple(view.tokens[int(row)].text for row in rows)
    labels = {
        "stage": [part if n is None else f"{n} {part}" for n, part in stages],
        "position": words,
    }

    def named(array: Tensor, title: str) -> Named:
        axes = ("stage", "position", "rank")[: array.ndim]
        return Named(array, axes, labels, f"lens, {title}")

    said = {*best.flatten().tolist(), *chosen.tolist()} - {-1}
    return Lens(
        stages=stages,
        positions=tuple(rows.tolist()),
        tokens=words,
        best=named(best, "best tokens"),
        best_probability=named(likely, "their probability"),
        chosen=chosen,
        probability=named(probability, "probability"),
        logit=named(logit, "logit"),
        rank=named(rank, "rank"),
        divergence=named(divergence, "divergence"),
        entropy=named(entropy, "entropy"),
        norm=named(
            torch.stack([view.seen[name][0, rows].float().norm(dim=-1) for name in names]),
            "norm of the stream",
        ),
        words={id: output_text(view, spec, id) for id in said},
    )


def pieces(view: View, head: Head, streams: Tensor) -> Iterator[tuple[int, Tensor]]:
    """What a head reads in [row, width], some rows at a time: the first row, and [row, token]."""
    step = max(1, ROOM // (head.outputs or 1))
    for at in range(0, len(streams), step):
        pause()
        yield at, view.model.net.readout(streams[at : at + step][None], head.name)[0]


def _by_stage(rows: Tensor, stages: int) -> Tensor:
    """[stage * position, ...] as [stage, position, ...]."""
    return rows.view(stages, -1, *rows.shape[1:])


def stage_names(view: View) -> list[str]:
    """The streams that can be read; in baselines some are of another width than the last."""
    stack, front = view.model.spec.last_stack, f"{view.stack}."
    widths = {f"{front}embed": stack.width}
    for depth, width in enumerate(stack.widths[1:]):
        widths[f"{front}blocks.{depth}.resid_mid"] = stack.widths[depth]
        widths[f"{front}blocks.{depth}.resid_post"] = width
    known = names_of(view.model.spec)
    return [name for name, width in widths.items() if name in known and width == stack.widths[-1]]


def stage_of(name: str) -> tuple[int | None, str]:
    parts = name.split(".")
    return int(parts[2]) if parts[1] == "blocks" else None, STAGES[parts[-1]]


def _read(logits: Tensor, end: Tensor, chosen: Tensor, top: int) -> tuple[Tensor, ...]:
    """Of [row, token], of which `end` has log-probabilities: the best, their probabilities;
    probability, logit and rank of the chosen; the divergence from the end, and the entropy."""
    here = logits.float().log_softmax(-1)
    likely, best = here.topk(min(top, here.shape[-1]), -1)
    none = chosen < 0
    own = here.gather(1, chosen.clamp(min=0)[:, None])
    rank = (here > own).sum(-1).masked_fill(none, -1)
    logit = logits.float().gather(1, chosen.clamp(min=0)[:, None])[:, 0]
    divergence = F.kl_div(here, end, reduction="none", log_target=True).sum(-1)
    entropy = -(here.exp() * here).sum(-1)
    nothing = float("nan")
    probability = own[:, 0].exp().masked_fill(none, nothing)
    return (
        best,
        likely.exp(),
        probability,
        logit.masked_fill(none, nothing),
        rank,
        divergence,
        entropy,
    )
