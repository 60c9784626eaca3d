"""about.json: facts about the model, the data and the machine that the recipe does not contain.

data_summary.json is the summary of the data.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from glassformer import __version__
from glassformer.data.files import find_files
from glassformer.train.data_summary import FILE as SUMMARY
from glassformer.train.data_summary import DataSummary
from glassformer.train.reporter import Reporter
from glassformer.train.run_records import ABOUT, read_record

if TYPE_CHECKING:
    from glassformer.train.estimate import RunEstimate
    from glassformer.train.run_folder import Run

NAMED = 20  # maximum number of files listed per split


@dataclass(frozen=True, kw_only=True)
class Files:
    """The files of a split; `first` lists some by name and size."""

    count: int
    bytes: int
    first: Sequence[tuple[str, int]]


@dataclass(frozen=True, kw_only=True)
class About:
    """The content of about.json."""

    architecture: str
    parameters: int
    trained: int
    body: int  # those inside the layers, without embeddings and heads
    tokens_epoch: int
    flops_token: float
    device: str
    steps: int | None = None  # of the whole run; version 0.1 did not write it
    versions: dict[str, str]
    data: dict[str, Files]


class AboutReporter(Reporter):
    """Writes about.json before the first step, and again when a run resumes, maybe elsewhere.

    Also writes data_summary.json.
    """

    def __init__(self) -> None:
        self._summary: DataSummary | None = None

    def data(self, summary: DataSummary) -> None:
        self._summary = summary

    def begin(self, run: Run, plan: RunEstimate) -> None:
        settings = run.recipe.data
        splits = {split: settings.files(split) for split in ("train", "validation", "test")}
        about = About(
            architecture=plan.architecture,
            parameters=plan.parameters,
            trained=plan.trained,
            body=plan.body,
            tokens_epoch=plan.tokens_epoch,
            flops_token=plan.flops_token,
            device=plan.device,
            steps=plan.steps,
            versions={
                "glassformer": __version__,
                "torch": torch.__version__,
                "python": platform.python_version(),
            },
            data={split: _files(patterns) for split, patterns in splits.items() if patterns},
        )
        run.manifest.write("about.json", json.dumps(asdict(about), indent=2) + "\n")
        if self._summary is not None:
            run.manifest.write(SUMMARY, self._summary.to_json())


def read_about(folder: Path) -> About | None:
    """Reads about.json; returns None for a run before its first step."""
    path = folder / "about.json"
    if not path.exists():
        return None
    content = read_record(path, ABOUT)
    files = {split: Files(**found) for split, found in content.pop("data").items()}
    known = {field.name: content[field.name] for field in fields(About) if field.name in content}
    return About(**known, data=files)


def _files(patterns: Sequence[str]) -> Files:
    sized = [(str(path), path.stat().st_size) for path in find_files(patterns)]
    total = sum(size for _, size in sized)
    return Files(count=len(sized), bytes=total, first=sized[:NAMED])
