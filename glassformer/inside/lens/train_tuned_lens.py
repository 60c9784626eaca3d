"""Texts come in, the maps of a `TunedLens` go out.

The model stays as it is. Every step reads some texts, and moves each stage's map so that what is
read behind it comes nearer to what the model says in the end: by KL(end, here), as in Belrose et
al. (2023), with Adam and a rate that sinks to zero. An encoder reads texts with some tokens masked,
as it learned to.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from glassformer.errors import GlassformerError
from glassformer.inside.capture.corpus import LENGTH, TOKENS, CorpusPiece, batches, captured, pieces
from glassformer.inside.capture.model_inputs import Text
from glassformer.inside.lens.lens_metrics import check_gradient, said, spans
from glassformer.inside.lens.stages import language_head, stage_names
from glassformer.inside.lens.tuned_lens import BEGUN, TunedLens, TunedLensFacts, check_place, mapped
from glassformer.spec import HeadSpec
from glassformer.storage.folders import atomic_folder, complete_pending_save
from glassformer.tasks.model_protocol import TaskModel

MASKED = 0.15  # of an encoder's tokens
WARM = 0.1  # of the steps, in which the rate rises
KEPT = 50  # steps between two saves
RECENT = 0.9  # of the divergence so far that counts beside a step's

Progress = Callable[[int, int, float], None]
"""Is told the step, of how many, and the mean divergence of all stages in it."""


@dataclass(frozen=True)
class TunedLensSettings:
    head: str
    steps: int
    tokens: int
    rate: float
    length: int
    seed: int
    pieces: int


def tune_lens(
    model: TaskModel,
    texts: Iterable[Text],
    *,
    targets: Iterable[Text] | None = None,
    head: str | None = None,
    folder: str | Path | None = None,
    steps: int = 250,
    tokens: int = TOKENS,
    rate: float | None = None,
    length: int = LENGTH,
    seed: int = 0,
    progress: Progress | None = None,
) -> TunedLens:
    """A tuned lens for a decoder, an encoder with a head for masked words, or the decoder of an
    encoder-decoder (`targets`: what it has written of each text). `tokens`: read in a step, in
    windows of `length` at most; `rate`: Adam's, 1 over the width by default. `head`: the one it is
    for, else the first that reads every position. In `folder` the lens is saved; what was stopped
    goes on there when it is called again with the same.

    >>> inside.tune_lens(model, texts, folder="model/tuned_lens").facts.divergence
    """
    by, stages = language_head(model, head), stage_names(model.spec)
    given = list(pieces(model, texts, targets, length))
    if not given:
        raise GlassformerError("There is nothing to learn from: no text has a word in it.")
    rate = 1 / model.spec.last_stack.widths[-1] if rate is None else rate
    if steps < 1 or tokens < 1 or not rate > 0:
        raise GlassformerError("A lens learns in at least one step, of tokens, at a rate above 0.")
    settings = TunedLensSettings(by.name, steps, tokens, rate, length, seed, len(given))
    work = Tuning(model, by, stages, settings)
    if folder is not None:
        check_place(Path(folder))
        work.resume(Path(folder))
    try:
        for batch in work.schedule(given):
            loss = work.step(batch)
            if progress is not None:
                progress(work.done, steps, loss)
            if folder is not None and work.done % KEPT == 0 and work.done < steps:
                work.save(Path(folder))
    except KeyboardInterrupt:
        if folder is not None:
            work.save(Path(folder))
        raise
    lens = work.lens()
    if folder is not None:
        lens.save(folder)
        (Path(folder) / BEGUN).unlink(missing_ok=True)
    return lens


class Tuning:
    """Maps on their way."""

    def __init__(
        self, model: TaskModel, head: HeadSpec, stages: Sequence[str], settings: TunedLensSettings
    ) -> None:
        self.model, self.head, self.settings = model, head, settings
        *self.stages, self.last = stages
        width, count = model.spec.last_stack.widths[-1], len(self.stages)
        device = next(model.net.parameters()).device
        self.weight = torch.zeros(count, width, width, device=device)
        self.bias = torch.zeros(count, width, device=device)
        self.optimizer = torch.optim.Adam(self.maps, settings.rate)
        self.recent = torch.zeros(count, device=device)  # divergence of each stage
        self.done = self.read = 0  # steps, tokens

    @property
    def maps(self) -> tuple[Tensor, Tensor]:
        return self.weight, self.bias

    def schedule(self, given: Sequence[CorpusPiece]) -> Iterator[list[CorpusPiece]]:
        """The batches from here to the last step. Each round of all texts is in an order of its
        own, so that the same steps come whether it was stopped or not."""
        number = around = 0
        while True:
            mixed = torch.Generator().manual_seed(self._seed(around))
            order = torch.randperm(len(given), generator=mixed).tolist()
            for batch in batches((given[i] for i in order), self.settings.tokens):
                if number == self.settings.steps:
                    return
                if number >= self.done:
                    yield batch
                number += 1
            around += 1

    def _seed(self, number: int) -> int:
        return 1_000_003 * self.settings.seed + number

    def step(self, batch: Sequence[CorpusPiece]) -> float:
        """The mean divergence over all stages, before the step."""
        seen = masked(self.model, batch, self._seed(self.done))
        streams = captured(self.model, seen, [*self.stages, self.last])
        rows = len(streams[self.last])
        slopes = [torch.zeros_like(x) for x in self.maps]
        losses = torch.zeros_like(self.recent)
        for some in spans(rows, self.head):
            end = said(self.model, self.head, streams[self.last][some])
            for at, stage in enumerate(self.stages):
                with torch.enable_grad():
                    own = [x[at].detach().requires_grad_() for x in self.maps]
                    here = said(self.model, self.head, mapped(streams[stage][some], *own))
                    loss = F.kl_div(here, end, reduction="sum", log_target=True) / rows
                    check_gradient(loss)
                    found = torch.autograd.grad(loss, own)
                losses[at] += loss.detach()
                for slope, part in zip(slopes, found, strict=True):
                    slope[at] += part
        self._move(slopes)
        self.recent = RECENT * self.recent + (1 - RECENT) * losses if self.read else losses
        self.read += rows
        return float(losses.mean())

    def _move(self, slopes: Sequence[Tensor]) -> None:
        steps = self.settings.steps
        rising, falling = (self.done + 1) / max(1.0, WARM * steps), (steps - self.done) / steps
        self.optimizer.param_groups[0]["lr"] = self.settings.rate * min(1.0, rising, falling)
        for x, slope in zip(self.maps, slopes, strict=True):
            x.grad = slope
        self.optimizer.step()
        self.done += 1

    def lens(self) -> TunedLens:
        facts = TunedLensFacts(
            architecture=self.model.architecture,
            head=self.head.name,
            width=self.bias.shape[1],
            outputs=self.head.outputs or 0,
            stages=tuple(self.stages),
            steps=self.done,
            tokens=self.read,
            divergence=tuple(self.recent.tolist()),
        )
        return TunedLens(facts, self.weight.clone(), self.bias.clone())

    # --- stopped and going on ---------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        """All that is needed to go on."""
        tensors = {"weight": self.weight, "bias": self.bias, "recent": self.recent}
        for number, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"{number}.{name}": x for name, x in state.items()}
        told = {**asdict(self.settings), "done": self.done, "read": self.read}
        with atomic_folder(folder) as draft:
            whole = {name: x.detach().cpu().contiguous() for name, x in tensors.items()}
            save_file(whole, draft / BEGUN, {"told": json.dumps(told)})

    def resume(self, folder: Path) -> None:
        """From what was saved, if that was begun with as many texts and the same settings."""
        complete_pending_save(folder)
        if not (folder / BEGUN).exists():
            return
        try:
            with safe_open(folder / BEGUN, "pt") as file:
                told = json.loads(file.metadata()["told"])
                held = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (OSError, SafetensorError, KeyError, ValueError) as error:
            raise GlassformerError(f"{folder / BEGUN} cannot be read ({error}).") from None
        self.done, self.read = told.pop("done"), told.pop("read")
        if told != asdict(self.settings) or held["weight"].shape != self.weight.shape:
            raise GlassformerError(
                f"{folder} holds a lens that was begun with another model, other texts or settings;"
                " give the same to go on, or another folder."
            )
        for x, name in ((self.weight, "weight"), (self.bias, "bias"), (self.recent, "recent")):
            x.copy_(held[name])
        names = ("step", "exp_avg", "exp_avg_sq")
        state = {number: {name: held[f"{number}.{name}"] for name in names} for number in (0, 1)}
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": state})


def masked(model: TaskModel, batch: Sequence[CorpusPiece], seed: int) -> list[CorpusPiece]:
    """What an encoder for masked words reads: some of its tokens, other than special ones, are
    masks."""
    known = model.tokenizer
    mask = None if known is None else known.special.get("mask")
    if known is None or mask is None or model.spec.decoder is not None:
        return list(batch)
    generator = torch.Generator().manual_seed(seed)
    special = torch.tensor(sorted(known.special_ids))
    found = []
    for piece in batch:
        ids = piece.inputs["tokens"]
        hit = torch.rand(ids.shape, generator=generator).to(ids.device) < MASKED
        hit &= ~torch.isin(ids, special.to(ids.device))
        inputs = {**piece.inputs, "tokens": ids.masked_fill(hit, mask)}
        found.append(replace(piece, inputs=inputs))
    return found
