"""The tuned lens: maps from each layer's representation to that of the last layer.

The logit lens decodes a layer as if it were the last; but layers rotate and shift their
representations, so that it misreads early layers (Belrose et al., 2023). The tuned lens has a map
for every stage, x + W x + b, trained (`train_tuned_lens.py`) so that the output decoded after it is
as close as possible to the model's final output. The last stage is decoded without a map.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from glassformer.errors import GlassformerError, InputError, LoadError
from glassformer.inside.lens.stages import stage_names
from glassformer.storage.files import write_json
from glassformer.storage.folders import atomic_folder, complete_pending_save
from glassformer.storage.parsing import parse_json
from glassformer.tasks.model_protocol import TaskModel

FOLDER = "tuned_lens"  # within the model folder, where the page looks for it
CONFIG, MAPS, BEGUN = "lens.json", "maps.safetensors", "training.safetensors"


@dataclass(frozen=True)
class TunedLensFacts:
    """Metadata of a tuned lens.

    Attributes:
        architecture: The architecture of the model.
        head: The head that the lens is for.
        width: The width of the residual stream.
        outputs: The number of outputs of the head.
        stages: The names of the residual streams that have maps.
        steps: The number of training steps.
        tokens: The number of training tokens.
        divergence: The mean KL(final, stage) in nats of each stage in the last training steps.
    """

    architecture: str
    head: str
    width: int
    outputs: int
    stages: tuple[str, ...]
    steps: int
    tokens: int
    divergence: tuple[float, ...]


class TunedLens:
    """A trained lens: `weight` is [stage, out, in] and `bias` [stage, out], both float32.

    >>> lens = inside.tune_lens(model, texts, folder="model/tuned_lens")
    >>> view.lens(tuned=lens)
    """

    def __init__(self, facts: TunedLensFacts, weight: Tensor, bias: Tensor) -> None:
        self.facts, self.weight, self.bias = facts, weight, bias

    def map(self, stage: str, stream: Tensor) -> Tensor:
        """Maps a residual stream to the input of the final norm and the head.

        Args:
            stage: The stage of the stream, a hook point name.
            stream: The residual stream, [..., width].

        Returns:
            The mapped stream, [..., width].
        """
        if stage not in self.facts.stages:  # the last stage
            return stream
        at = self.facts.stages.index(stage)
        weight, bias = (x[at].to(stream.device) for x in (self.weight, self.bias))
        return mapped(stream, weight, bias)

    def map_all(self, stages: Sequence[str], streams: Tensor) -> Tensor:
        """Maps the residual streams of several stages.

        Args:
            stages: The stages of the streams.
            streams: The residual streams, [stage, position, width].

        Returns:
            The mapped streams, [stage, position, width].
        """
        return torch.stack([self.map(*each) for each in zip(stages, streams, strict=True)])

    def check(self, model: TaskModel, head: str | None = None) -> TunedLens:
        """Checks that the lens fits a model.

        Args:
            model: The model.
            head: The head whose outputs the lens is used for, by default the head that the lens
                was trained with.

        Returns:
            The lens itself.

        Raises:
            InputError: The lens was trained for another model or head.
        """
        facts, outputs = self.facts, {one.name: one.num_outputs for one in model.spec.heads}
        width, stages = model.spec.last_stack.widths[-1], stage_names(model.spec)[:-1]
        fits = (facts.head, facts.outputs, facts.width, list(facts.stages))
        if fits != (head or facts.head, outputs.get(facts.head), width, stages):
            raise InputError(
                f"This tuned lens is for {facts.architecture} with {len(facts.stages)} stages of "
                f"{facts.width} numbers, read by the head {facts.head!r}; {model.architecture} has "
                f"{len(stages)} of {width}, read by {repr(head) if head else ', '.join(outputs)}."
            )
        return self

    def save(self, folder: str | Path) -> None:
        """Saves the lens to a folder; other files in the folder are kept.

        Args:
            folder: The folder.
        """
        check_place(Path(folder))
        with atomic_folder(Path(folder), keys=(CONFIG,)) as draft:
            write_json(draft / CONFIG, asdict(self.facts))
            maps = {"weight": self.weight, "bias": self.bias}
            save_file(
                {name: x.detach().cpu().contiguous() for name, x in maps.items()}, draft / MAPS
            )

    @classmethod
    def load(cls, folder: str | Path) -> TunedLens:
        """Loads a lens from a folder.

        Args:
            folder: The folder.

        Returns:
            The lens.
        """
        facts, maps = facts_in(Path(folder)), tensors_in(Path(folder) / MAPS)
        shape = len(facts.stages), facts.width
        right = {"weight": (*shape, facts.width), "bias": shape}
        if {name: tuple(x.shape) for name, x in maps.items()} != right:
            raise LoadError(f"{folder} does not contain the maps that {CONFIG} lists.")
        return cls(facts, maps["weight"], maps["bias"])

    def __repr__(self) -> str:
        facts = self.facts
        return (
            f"<tuned lens of {len(facts.stages)} stages for {facts.architecture}: {facts.steps} "
            f"steps, {facts.tokens:,} tokens>"
        )


def mapped(stream: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Returns x + W x + b, computed in float32, in the dtype of the stream."""
    wide = stream.float()
    return (wide + torch.nn.functional.linear(wide, weight, bias)).to(stream.dtype)


def lens_folder(source: Path) -> Path:
    """Returns the folder of the lens that belongs to a model loaded from a folder or file."""
    return (source if source.is_dir() else source.parent) / FOLDER


def tuned_head(source: Path) -> str | None:
    """Returns the head of the lens stored with a model; None if there is none that can be read."""
    with suppress(GlassformerError):
        return facts_in(lens_folder(source)).head
    return None


def load_lens_of(source: Path) -> TunedLens:
    """Loads the lens stored with a model."""
    return TunedLens.load(lens_folder(source))


def check_place(folder: Path) -> None:
    """Raises an error if the folder has other files with the names of a lens's files."""
    complete_pending_save(folder)
    there = [name for name in (CONFIG, MAPS) if (folder / name).exists()]
    if there:
        try:
            TunedLens.load(folder)
        except GlassformerError:
            raise LoadError(
                f"{folder / there[0]} does not belong to a tuned lens and is not replaced; name "
                f"another folder, such as {folder / FOLDER}."
            ) from None


def facts_in(folder: Path) -> TunedLensFacts:
    complete_pending_save(folder)
    try:
        given: Mapping[str, Any] = parse_json((folder / CONFIG).read_bytes())
        lists = {name: tuple(given[name]) for name in ("stages", "divergence")}
        return TunedLensFacts(**{**given, **lists})
    except OSError as error:
        raise LoadError(
            f"{folder} contains no tuned lens ({CONFIG}: {error.strerror}); train one with "
            "inside.tune_lens."
        ) from None
    except (ValueError, TypeError, KeyError) as error:
        raise LoadError(f"{folder / CONFIG} does not describe a lens ({error}).") from None


def tensors_in(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise LoadError(f"{path} cannot be read ({error}).") from None
