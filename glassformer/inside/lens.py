"""Inside room, the logit lens: the stream of every layer, read as if it were the last.

After attention and after feed-forward, at every position: which tokens would be said, how probable
a chosen one is, and how far that is from what is said in the end. Logits are made some rows at a
time, so that memory does not grow with text and layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from glassformer.inside.named import Named, check_index
from glassformer.inside.names import names_of
from glassformer.inside.predictions import language_head, output_id, output_text

if TYPE_CHECKING:
    from glassformer.inside.view import View

ROOM = 1 << 24  # logits at once
STAGES = {"embed": "embedding", "resid_mid": "attention", "resid_post": "feed-forward"}


@dataclass(frozen=True, eq=False)
class Lens:
    """Everything is [stage, position]. `stages` are the embedding, then attention and feed-forward
    of each layer; `best` are the most probable tokens, [stage, position, rank]. `probability` and
    `rank` (0 is the best) are those of the token chosen, or else of what is predicted there in the
    end; `divergence` is KL(end, here) in nats; `norm` is the length of the stream's vector."""

    stages: tuple[tuple[int | None, str], ...]  # layer, and what stands before it
    positions: tuple[int, ...]
    tokens: tuple[str, ...]  # that are read there
    best: Named
    best_probability: Named
    chosen: Tensor  # [position]
    probability: Named
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
        from glassformer.inside.show import grid

        return grid.lens_html(self)

    def save_html(self, path: str | Path) -> None:
        """One file that needs nothing else."""
        from glassformer.inside.show import grid, page

        page.save(path, "Logit lens", grid.lens_html(self))


@torch.no_grad()
def lens(
    view: View,
    *,
    token: int | str | None = None,
    top: int = 5,
    positions: Sequence[int] | None = None,
    head: str | None = None,
) -> Lens:
    """`token`: whose probability and rank are followed. `positions`: those alone."""
    spec = language_head(view, head)
    net, size = view.model.net, len(view.tokens)
    places = list(range(size)) if positions is None else list(positions)
    for place in places:
        check_index(place, size, "position")
    names = _stages(view)
    view.capture([f"{view.stack}.final", *names])
    width = view.model.spec.last_stack.widths[-1]
    names = [name for name in names if view.seen[name].shape[-1] == width]  # baselines' may differ
    rows = torch.tensor([place % size for place in places], device=view.output.hidden.device)
    ends = view.output.heads[spec.name][0][rows]  # [position, token]
    if token is None:
        chosen = ends.argmax(-1)
    else:
        chosen = torch.full_like(rows, output_id(view, spec, token, ends[0]))
    step = max(1, ROOM // ends.shape[-1])
    found: list[list[Tensor]] = []
    for name in names:
        stream = view.seen[name][:, rows]
        parts = [
            _read(
                net.readout(stream[:, at : at + step], spec.name)[0],
                ends[at : at + step],
                chosen[at : at + step],
                top,
            )
            for at in range(0, len(rows), step)
        ]
        found.append([torch.cat(each) for each in zip(*parts, strict=True)])
    best, likely, probability, rank, divergence, entropy = (
        torch.stack(each) for each in zip(*found, strict=True)
    )
    stages = tuple(_stage(name) for name in names)
    words = tuple(view.tokens[int(row)].text for row in rows)
    labels = {
        "stage": [part if n is None else f"{n} {part}" for n, part in stages],
        "position": words,
    }

    def named(array: Tensor, title: str) -> Named:
        axes = ("stage", "position", "rank")[: array.ndim]
        return Named(array, axes, labels, f"lens, {title}")

    said = {*best.flatten().tolist(), *chosen.tolist()}
    return Lens(
        stages=stages,
        positions=tuple(rows.tolist()),
        tokens=words,
        best=named(best, "best tokens"),
        best_probability=named(likely, "their probability"),
        chosen=chosen,
        probability=named(probability, "probability"),
        rank=named(rank, "rank"),
        divergence=named(divergence, "divergence"),
        entropy=named(entropy, "entropy"),
        norm=named(
            torch.stack([view.seen[name][0, rows].float().norm(dim=-1) for name in names]),
            "norm of the stream",
        ),
        words={id: output_text(view, spec, id) for id in said},
    )


def _stages(view: View) -> list[str]:
    front = f"{view.stack}."
    return [
        name
        for name in names_of(view.model.spec)
        if name.startswith(front) and name.split(".")[-1] in STAGES
    ]


def _stage(name: str) -> tuple[int | None, str]:
    parts = name.split(".")
    return int(parts[2]) if parts[1] == "blocks" else None, STAGES[parts[-1]]


def _read(logits: Tensor, ends: Tensor, chosen: Tensor, top: int) -> tuple[Tensor, ...]:
    """Of [position, token]: the best, their probabilities, probability and rank of the chosen, the
    divergence from the end, and the entropy."""
    here, end = logits.float().log_softmax(-1), ends.float().log_softmax(-1)
    likely, best = here.topk(min(top, here.shape[-1]), -1)
    own = here.gather(1, chosen[:, None])
    rank = (here > own).sum(-1)
    divergence = (end.exp() * (end - here)).sum(-1)
    entropy = -(here.exp() * here).sum(-1)
    return best, likely.exp(), own[:, 0].exp(), rank, divergence, entropy
