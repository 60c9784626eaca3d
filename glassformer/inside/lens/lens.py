"""The lens: the residual stream of every layer, decoded as if it were the last.

After attention and after feed-forward, at every position, it shows the most probable tokens, the
probability of a chosen token, and the divergence from the final output. Logits are computed in
chunks of rows, so that memory does not grow with the number of tokens and layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.errors import ConfigError
from glassformer.inside.attribute.gradients import Stand
from glassformer.inside.attribute.predictions import output_id, output_text
from glassformer.inside.capture.cancellation import check_cancelled
from glassformer.inside.capture.named_tensor import NamedTensor, check_index
from glassformer.inside.displayable import Displayable
from glassformer.inside.lens.stages import language_head, stage_label, stage_names, stage_of
from glassformer.spec import HeadSpec

if TYPE_CHECKING:
    from glassformer.inside.capture.view import View
    from glassformer.inside.lens.tuned_lens import TunedLens

CHUNK_LOGITS = 1 << 22  # logits per chunk; more would be written to memory and read back


@dataclass(frozen=True, eq=False)
class Lens(Displayable):
    """The result of a lens; the tensors are [stage, position] unless noted.

    Attributes:
        stages: The embedding, then attention and feed-forward of each layer.
        positions: The positions.
        tokens: The input tokens at these positions.
        best: The most probable tokens, [stage, position, rank].
        best_probability: Their probabilities.
        chosen: The chosen token at each position, or else the one predicted in the end, -1 for
            none.
        probability: The probability of the chosen token, NaN where none is chosen.
        logit: The logit of the chosen token, NaN where none is chosen.
        rank: The rank of the chosen token (0 is the best), -1 where none is chosen.
        divergence: KL(final, stage) in nats.
        entropy: The entropy in nats.
        norm: The norm of the residual stream.
        words: The text of every token id that occurs.
        heading: The title.
    """

    stages: tuple[tuple[int | None, str], ...]  # layer, and the component before the stage
    positions: tuple[int, ...]
    tokens: tuple[str, ...]  # input tokens
    best: NamedTensor
    best_probability: NamedTensor
    chosen: Tensor  # [position]
    probability: NamedTensor
    logit: NamedTensor
    rank: NamedTensor
    divergence: NamedTensor
    entropy: NamedTensor
    norm: NamedTensor
    words: dict[int, str]
    heading: str = "Logit lens"

    def text(self, stage: int, position: int, rank: int = 0) -> str:
        """Returns the token at a rank; `stage` and `position` are indices within this lens."""
        return self.words[int(self.best.array[stage, position, rank])]

    @property
    def names(self) -> list[str]:
        return [part if layer is None else f"{layer} {part}" for layer, part in self.stages]

    def __repr__(self) -> str:
        return f"<lens of {len(self.stages)} stages and {len(self.positions)} positions>"

    def _repr_html_(self) -> str:
        from glassformer.inside.show.lens_table import lens_html

        return lens_html(self)


@torch.no_grad()
def lens(
    view: View,
    *,
    token: int | str | Sequence[int] | None = None,
    top: int = 5,
    positions: Sequence[int] | None = None,
    head: str | None = None,
    through: int = 0,
    tuned: TunedLens | None = None,
) -> Lens:
    """Applies the logit lens or a tuned lens to a view.

    Args:
        view: The view.
        token: The token whose probability and rank are followed: one for all positions, or a
            sequence with one per position (-1 for none). By default the token predicted in the end.
        top: The number of most probable tokens.
        positions: The positions, by default all.
        head: The head, by default that of the view.
        through: The number of last layers that process each residual stream before it is decoded,
            skipping the layers in between.
        tuned: A tuned lens (`tuned_lens.py`), which maps each residual stream toward that of the
            last layer before it is decoded.

    Returns:
        The lens.
    """
    spec = language_head(view.model, head or view.head)
    size = len(view.tokens)
    places = list(range(size)) if positions is None else list(positions)
    for place in places:
        check_index(place, size, "position")
    names = stage_names(view.model.spec)
    view.run_with_cache(names)
    names, streams = _through(view, names, through)
    if tuned is not None:
        if through:
            raise ConfigError("A tuned lens maps to the last layer; leave out `through`.")
        streams = tuned.check(view.model, spec.name).map_all(names, streams)
    rows = torch.tensor(
        [place % size for place in places], device=view.output.last_hidden_state.device
    )
    ends = view.output.head_outputs[spec.name][0][rows]  # [position, token]
    if token is None:
        chosen = ends.argmax(-1)
    elif not isinstance(token, int | str):
        if len(token) != len(places):
            raise ConfigError(
                f"There are {len(token)} tokens for {len(places)} positions; give one for each "
                "position."
            )
        chosen = torch.tensor(list(token), device=rows.device)
    else:
        chosen = torch.full_like(rows, output_id(view, spec, token, ends[0]))
    streams = streams[:, rows].flatten(0, 1)
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
        "stage": [*map(stage_label, names)],
        "position": words,
    }

    def named(array: Tensor, title: str) -> NamedTensor:
        axes = ("stage", "position", "rank")[: array.ndim]
        return NamedTensor(array, axes, labels, f"lens, {title}")

    outputs = {*best.flatten().tolist(), *chosen.tolist()} - {-1}
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
            torch.stack([view.cache[name][0, rows].float().norm(dim=-1) for name in names]),
            "norm of the stream",
        ),
        words={id: output_text(view, spec, id) for id in outputs},
        heading="Logit lens" if tuned is None else "Tuned lens",
    )


def _through(view: View, names: list[str], last: int) -> tuple[list[str], Tensor]:
    """The stages, and their streams [stage, position, width] after the `last` last layers."""
    depth = len(view.spec.order)
    if not 0 <= last < depth:
        raise ConfigError(
            f"through must be between 0 and {depth - 1} for {depth} layers, not {last}."
        )
    if last == 0:
        return names, torch.stack([view.cache[name][0] for name in names])
    into, end = (view.name(depth - last, "resid_pre"), view.name(depth - 1, "resid_post"))
    names = [name for name in names if (stage_of(name)[0] or 0) < depth - last]
    found = []
    for name in names:
        seen = Stand({into: view.cache[name]}, end)
        view.run(seen, heads=())
        found.append(seen[end][0])
    return names, torch.stack(found)


def pieces(view: View, head: HeadSpec, streams: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Decodes [row, width] by a head in chunks.

    Yields:
        The index of the chunk's first row, and its logits, [row, token].
    """
    step = max(1, CHUNK_LOGITS // (head.num_outputs or 1))
    for at in range(0, len(streams), step):
        check_cancelled()
        yield at, view.model.readout(streams[at : at + step][None], head.name)[0]


def _by_stage(rows: Tensor, stages: int) -> Tensor:
    """Reshapes [stage * position, ...] to [stage, position, ...]."""
    return rows.view(stages, -1, *rows.shape[1:])


def _read(logits: Tensor, end: Tensor, chosen: Tensor, top: int) -> tuple[Tensor, ...]:
    """Statistics of logits [row, token], where `end` holds the final log-probabilities.

    Returns:
        The best tokens and their probabilities; probability, logit and rank of the chosen token;
        the divergence from the final output, and the entropy.
    """
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
