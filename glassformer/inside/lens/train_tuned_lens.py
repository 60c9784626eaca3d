"""Training of a `TunedLens` on texts.

The model is frozen. Every step runs a batch of texts and updates each stage's map so that the
output decoded after it approaches the model's final output: the loss is KL(final, stage), as in
Belrose et al. (2023), with Adam and a learning rate that decays to zero. An encoder reads texts
with some tokens masked, as in its own training.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from glassformer.errors import ConfigError, InputError, LoadError
from glassformer.inside.capture.corpus import LENGTH, TOKENS, CorpusPiece, batches, captured, pieces
from glassformer.inside.capture.model_inputs import Text
from glassformer.inside.lens.lens_metrics import check_gradient, head_log_probs, spans
from glassformer.inside.lens.stages import language_head, stage_names
from glassformer.inside.lens.tuned_lens import BEGUN, TunedLens, TunedLensFacts, check_place, mapped
from glassformer.spec import HeadSpec
from glassformer.storage.folders import atomic_folder, complete_pending_save
from glassformer.storage.parsing import parse_json, parsing
from glassformer.tasks.model_protocol import TaskModel

MASKED = 0.15  # fraction of an encoder's tokens
WARM = 0.1  # fraction of the steps used for warmup
KEPT = 50  # steps between two saves
RECENT = 0.9  # decay of the running mean of the divergence

Progress = Callable[[int, int, float], None]
"""Called with the step, the number of steps and the mean divergence of all stages in the step."""


@dataclass(frozen=True)
class TunedLensSettings:
    """The settings that must be equal to resume a training."""

    head: str
    max_steps: int
    tokens_per_batch: int
    learning_rate: float
    max_length: int
    seed: int
    pieces: int


def tune_lens(
    model: TaskModel,
    texts: Iterable[Text],
    *,
    targets: Iterable[Text] | None = None,
    head: str | None = None,
    folder: str | Path | None = None,
    max_steps: int = 250,
    tokens_per_batch: int = TOKENS,
    learning_rate: float | None = None,
    max_length: int = LENGTH,
    seed: int = 0,
    progress: Progress | None = None,
) -> TunedLens:
    """Trains a tuned lens.

    The model is a decoder, an encoder with a masked language modeling head, or an encoder-decoder,
    whose decoder the lens is for.

    Args:
        model: The model.
        texts: The texts.
        targets: One decoder text per text for an encoder-decoder model.
        head: The head, by default the first that reads every position.
        folder: The folder to save the lens in. An interrupted training resumes there when called
            again with the same arguments.
        max_steps: The number of steps.
        tokens_per_batch: The number of tokens per step.
        learning_rate: Adam's learning rate, by default 1 / width.
        max_length: The maximum number of tokens per window.
        seed: The random seed.
        progress: Called after each step.

    Returns:
        The tuned lens.

    >>> inside.tune_lens(model, texts, folder="model/tuned_lens").facts.divergence
    """
    by, stages = language_head(model, head), stage_names(model.spec)
    given = list(pieces(model, texts, targets, max_length))
    if not given:
        raise InputError("There are no tokens in the texts.")
    learning_rate = 1 / model.spec.last_stack.widths[-1] if learning_rate is None else learning_rate
    if max_steps < 1 or tokens_per_batch < 1 or not learning_rate > 0:
        raise ConfigError(
            "max_steps and tokens_per_batch must be at least 1, and learning_rate must be above 0."
        )
    settings = TunedLensSettings(
        by.name, max_steps, tokens_per_batch, learning_rate, max_length, seed, len(given)
    )
    work = Tuning(model, by, stages, settings)
    if folder is not None:
        check_place(Path(folder))
        work.resume(Path(folder))
    try:
        for batch in work.schedule(given):
            loss = work.step(batch)
            if progress is not None:
                progress(work.done, max_steps, loss)
            if folder is not None and work.done % KEPT == 0 and work.done < max_steps:
                work.save(Path(folder))
        lens = work.lens()
        if folder is not None:
            lens.save(folder)
            (Path(folder) / BEGUN).unlink(missing_ok=True)
    except KeyboardInterrupt:
        if folder is not None and work.done:
            work.save(Path(folder))
        raise
    return lens


class Tuning:
    """The state of a training: maps, optimizer and counters."""

    def __init__(
        self, model: TaskModel, head: HeadSpec, stages: Sequence[str], settings: TunedLensSettings
    ) -> None:
        self.model, self.head, self.settings = model, head, settings
        *self.stages, self.last = stages
        width, count = model.spec.last_stack.widths[-1], len(self.stages)
        device = model.device
        self.weight = torch.zeros(count, width, width, device=device)
        self.bias = torch.zeros(count, width, device=device)
        self.optimizer = torch.optim.Adam(self.maps, settings.learning_rate)
        self.recent = torch.zeros(count, device=device)  # running mean of the divergence per stage
        self.done = self.read = 0  # steps, tokens

    @property
    def maps(self) -> tuple[Tensor, Tensor]:
        return self.weight, self.bias

    def schedule(self, given: Sequence[CorpusPiece]) -> Iterator[list[CorpusPiece]]:
        """Yields the batches from the current step to the last.

        Each epoch has its own order, so that a resumed training takes the same steps as one that
        was not interrupted.
        """
        number = around = 0
        while True:
            mixed = torch.Generator().manual_seed(self._seed(around))
            order = torch.randperm(len(given), generator=mixed).tolist()
            for batch in batches((given[i] for i in order), self.settings.tokens_per_batch):
                if number == self.settings.max_steps:
                    return
                if number >= self.done:
                    yield batch
                number += 1
            around += 1

    def _seed(self, number: int) -> int:
        return 1_000_003 * self.settings.seed + number

    def step(self, batch: Sequence[CorpusPiece]) -> float:
        """Runs one step and returns the mean divergence over all stages before it."""
        seen = masked(self.model, batch, self._seed(self.done))
        streams = captured(self.model, seen, [*self.stages, self.last])
        rows = len(streams[self.last])
        slopes = [torch.zeros_like(x) for x in self.maps]
        losses = torch.zeros_like(self.recent)
        for some in spans(rows, self.head):
            end = head_log_probs(self.model, self.head, streams[self.last][some])
            for at, stage in enumerate(self.stages):
                with torch.enable_grad():
                    own = [x[at].detach().requires_grad_() for x in self.maps]
                    here = head_log_probs(self.model, self.head, mapped(streams[stage][some], *own))
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
        steps = self.settings.max_steps
        rising, falling = (self.done + 1) / max(1.0, WARM * steps), (steps - self.done) / steps
        self.optimizer.param_groups[0]["lr"] = self.settings.learning_rate * min(
            1.0, rising, falling
        )
        for x, slope in zip(self.maps, slopes, strict=True):
            x.grad = slope
        self.optimizer.step()
        self.done += 1

    def lens(self) -> TunedLens:
        facts = TunedLensFacts(
            architecture=self.model.architecture,
            head=self.head.name,
            width=self.bias.shape[1],
            outputs=self.head.num_outputs or 0,
            stages=tuple(self.stages),
            steps=self.done,
            tokens=self.read,
            divergence=tuple(self.recent.tolist()),
        )
        return TunedLens(facts, self.weight.clone(), self.bias.clone())

    # --- saving and resuming ----------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        """Saves everything needed to resume."""
        tensors = {"weight": self.weight, "bias": self.bias, "recent": self.recent}
        for number, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"{number}.{name}": x for name, x in state.items()}
        saved = {**asdict(self.settings), "done": self.done, "read": self.read}
        with atomic_folder(folder) as draft:
            whole = {name: x.detach().cpu().contiguous() for name, x in tensors.items()}
            save_file(whole, draft / BEGUN, {"told": json.dumps(saved)})

    def _shapes(self) -> dict[str, Any]:
        """Returns the dtype and shape of each tensor that `save` writes."""
        maps = {"weight": self.weight, "bias": self.bias}
        found = {**maps, "recent": self.recent}
        for number, x in enumerate(maps.values()):
            found |= {f"{number}.{name}": x for name in ("exp_avg", "exp_avg_sq")}
            found[f"{number}.step"] = torch.tensor(0.0)
        return {name: (x.dtype, x.shape) for name, x in found.items()}

    def resume(self, folder: Path) -> None:
        """Resumes from a saved state if it has the same number of windows and the same settings."""
        complete_pending_save(folder)
        if not (folder / BEGUN).exists():
            return
        with parsing(folder / BEGUN, "the state of a lens that is trained"):
            with safe_open(folder / BEGUN, "pt") as file:
                saved = parse_json(file.metadata()["told"])
                held = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            self.done, self.read = int(saved.pop("done")), int(saved.pop("read"))
        shapes = {name: (x.dtype, x.shape) for name, x in held.items()}
        if (
            saved != asdict(self.settings)
            or shapes != self._shapes()
            or not 0 < self.done <= self.settings.max_steps
        ):
            raise LoadError(
                f"{folder} has an unfinished lens of another model, other texts or other "
                "settings; use the same ones to resume, or another folder."
            )
        steps = [held[f"{number}.step"].item() for number in (0, 1)]
        if steps != [self.done] * 2 or not all(bool(x.isfinite().all()) for x in held.values()):
            raise LoadError(
                f"{folder / BEGUN} is damaged: some of its numbers are not those of a training; "
                "name another folder."
            )
        for x, name in ((self.weight, "weight"), (self.bias, "bias"), (self.recent, "recent")):
            x.copy_(held[name])
        names = ("step", "exp_avg", "exp_avg_sq")
        state = {number: {name: held[f"{number}.{name}"] for name in names} for number in (0, 1)}
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": state})


def masked(model: TaskModel, batch: Sequence[CorpusPiece], seed: int) -> list[CorpusPiece]:
    """Masks some tokens of an encoder's pieces, except special ones.

    The pieces of other models are returned unchanged.
    """
    known = model.tokenizer
    mask = None if known is None else known.special.get("mask")
    if known is None or mask is None or model.spec.decoder is not None:
        return list(batch)
    generator = torch.Generator().manual_seed(seed)
    special = torch.tensor(sorted(known.special_ids))
    found = []
    for piece in batch:
        ids = piece.inputs["input_ids"]
        hit = torch.rand(ids.shape, generator=generator).to(ids.device) < MASKED
        hit &= ~torch.isin(ids, special.to(ids.device))
        inputs = {**piece.inputs, "input_ids": ids.masked_fill(hit, mask)}
        found.append(replace(piece, inputs=inputs))
    return found
