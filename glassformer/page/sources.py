"""Page room, sources: what was named on the command line comes in, models to load go out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from glassformer.errors import GlassformerError
from glassformer.model import Model
from glassformer.source import describe, find_folder, load
from glassformer.spec import ModelSpec
from glassformer.train.snapshots import Snapshot, is_run, snapshots
from glassformer.weights.quantize import count_parameters

PACKED = 10**9  # parameters up to which it is worth a second copy of them to be faster


@dataclass(frozen=True)
class Source:
    """A model that can be loaded; of a run folder, the last of its `checkpoints`."""

    id: str
    folder: Path
    snapshot: Snapshot | None = None
    checkpoints: tuple[Source, ...] = field(default=(), repr=False)

    def load(self) -> Model:
        if self.snapshot is None and not self.folder.exists():
            raise GlassformerError(f"{self.folder} is gone; put it back, or open another model.")
        if self.snapshot is not None:
            model = self.snapshot.load()
        else:
            model = load(self.folder, dtype=torch.float32)
        model.net.eval()
        return model.pack() if count_parameters(model.net) < PACKED else model

    def describe(self) -> tuple[str, ModelSpec]:
        """The class and what it is made of, without the weights."""
        if self.snapshot is not None:
            model = self.load()
            return model.architecture, model.spec
        _, architecture, spec = describe(self.folder)
        return architecture, spec


def find_sources(names: Sequence[str]) -> list[Source]:
    """Of one name several times, each has its own number."""
    found: dict[str, Source] = {}
    for name in names:
        run = is_run(name)
        folder = Path(name) if run else find_folder(name)
        own = folder.resolve().name or "model"
        id = next(i for i in (own, *(f"{own}-{n}" for n in range(2, 99))) if i not in found)
        found[id] = of_run(id, folder) if run else Source(id, folder)
    return list(found.values())


def of_run(id: str, folder: Path) -> Source:
    steps = tuple(Source(f"{id}@{one.step}", one.folder, snapshot=one) for one in snapshots(folder))
    return Source(id, folder, steps[-1].snapshot, steps)
