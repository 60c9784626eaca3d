"""Resolution of the model names of the command line to loadable models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from glassformer.errors import LoadError
from glassformer.find_model import find_folder
from glassformer.loading import describe, load
from glassformer.model import Model
from glassformer.spec import ModelSpec
from glassformer.text import Tokenizer
from glassformer.text.loading.load import holds_tokenizer
from glassformer.train.saved_steps import Snapshot, is_run, snapshots
from glassformer.weights.folder_kind import ADAPTER_CONFIG
from glassformer.weights.quantization import count_parameters
from glassformer.zoo import is_model, samples_of
from glassformer.zoo import published as real

CONFIG = "config.json"
PACKED = 10**9  # parameters up to which a packed copy is worth its memory
Sample = Mapping[str, str]  # a text, optionally with a pair or a target


@dataclass(frozen=True)
class ModelSource:
    """A model that can be loaded, optionally with an adapter.

    A source of a run folder loads the last of its `checkpoints`. `samples` are example texts for
    this model.
    """

    id: str
    folder: Path
    snapshot: Snapshot | None = None
    adapter: Path | None = None
    checkpoints: tuple[ModelSource, ...] = field(default=(), repr=False)
    samples: tuple[Sample, ...] = ()

    @property
    def place(self) -> Path:
        """The folder of this exact model, which contains its tuned lens."""
        return self.adapter or (self.folder if self.snapshot is None else self.snapshot.folder)

    def load(self) -> Model:
        """Loads the model in evaluation mode."""
        for needed in (self.folder, self.adapter):
            if self.snapshot is None and needed is not None and not needed.exists():
                raise LoadError(f"{needed} is gone; put it back, or open another model.")
        if self.snapshot is not None:
            model = self.snapshot.load()
        else:
            model = load(self.folder, dtype=torch.float32, adapter=self.adapter)
        model.eval()
        return model.pack() if count_parameters(model) < PACKED else model

    def load_tokenizer(self) -> Tokenizer | None:
        """Loads the tokenizer alone, if there is one."""
        folder = self.folder if self.snapshot is None else self.snapshot.folder
        if not holds_tokenizer(folder):
            return None
        return Tokenizer.load(folder, size=describe(folder)[0].get("vocab_size"))

    def describe(self) -> tuple[str, ModelSpec]:
        """Returns the architecture and specification.

        The weights are not loaded if config.json describes the model.
        """
        files = (self.place / name for name in (CONFIG, ADAPTER_CONFIG))
        if self.snapshot is not None and not any(file.is_file() for file in files):
            model = self.load()
            return model.architecture, model.spec
        folder = self.folder if self.snapshot is None else self.snapshot.folder
        _, architecture, spec = describe(folder, self.adapter)
        return architecture, spec


def find_sources(names: Sequence[str], adapter: str | None = None) -> list[ModelSource]:
    """Returns the model sources for some names.

    Repeated names get a number each.

    Args:
        names: Model names, folders or run folders.
        adapter: An adapter, for one model only.

    Returns:
        The sources in order.
    """
    found: dict[str, ModelSource] = {}
    for name in names:
        folder = Path(name) if is_run(name) else find_folder(name)
        own = name_of(name, folder)
        id = next(i for i in (own, *(f"{own}-{n}" for n in range(2, 99))) if i not in found)
        if adapter is not None:
            made = ModelSource(id, find_folder(name), adapter=find_folder(adapter))
        elif is_run(folder) and not is_plain(folder):
            made = of_run(id, folder)
        else:
            made = ModelSource(id, folder)
        found[id] = replace(made, samples=samples(name, folder))
    return list(found.values())


def name_of(name: str, folder: Path) -> str:
    if name.startswith(real.PREFIX):
        return name.removeprefix(real.PREFIX)
    return folder.resolve().name or "model"


def is_plain(folder: Path) -> bool:
    """Whether a run folder is a plain model with its recipe, without saved steps."""
    return (folder / CONFIG).is_file() and not (folder / "steps").is_dir()


def samples(name: str, folder: Path) -> tuple[Sample, ...]:
    """Returns the example texts of the model card or the list of published weights, if any."""
    if name.startswith(real.PREFIX):
        text = real.published(name)[1].sample
        return () if text is None else ({"text": text},)
    return tuple(samples_of(folder.name)) if is_model(folder) else ()


def of_run(id: str, folder: Path) -> ModelSource:
    steps = tuple(
        ModelSource(f"{id}@{one.step}", one.folder, snapshot=one) for one in snapshots(folder)
    )
    return ModelSource(id, folder, steps[-1].snapshot, checkpoints=steps)
