"""Train room, TensorBoard: what is logged, as events in the run folder."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from glassformer.errors import GlassformerError
from glassformer.train.recipe import RunSettings
from glassformer.train.reporter import Entry, Reporter

if TYPE_CHECKING:
    from glassformer.train.plan import Plan
    from glassformer.train.run import Run


def is_wanted(settings: RunSettings) -> bool:
    """Where nothing is said: if it is installed."""
    installed = find_spec("tensorboard") is not None
    if settings.tensorboard and not installed:
        raise GlassformerError(
            "run.tensorboard = true needs TensorBoard: pip install 'glassformer[tensorboard]', or "
            "leave it out."
        )
    return installed if settings.tensorboard is None else settings.tensorboard


class TensorBoard(Reporter):
    """When a run goes on, a new file says that events after the checkpoint count no longer."""

    def __init__(self) -> None:
        self._writer: Any = None

    def begin(self, run: Run, plan: Plan) -> None:
        events = import_module("torch.utils.tensorboard")
        forgotten = run.step + 1 if run.step else 0
        again = any(run.folder.glob("events.*"))
        self._writer = events.SummaryWriter(
            str(run.folder), purge_step=forgotten if again else None
        )
        if not run.step:
            recipe = "".join(f"    {line}\n" for line in run.recipe.toml().splitlines())
            self._writer.add_text("recipe", recipe, 0)

    def step(self, entry: Entry) -> None:
        self._add(entry)

    def valid(self, entry: Entry) -> None:
        self._add(entry)

    def save(self) -> None:
        self._writer.flush()

    def end(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def _add(self, entry: Entry) -> None:
        for name, value in figures_of(entry).items():
            self._writer.add_scalar(name, value, entry["step"])


def figures_of(entry: Entry) -> dict[str, float]:
    """A line of metrics.jsonl by names that such programs sort into groups."""
    if "valid" in entry:
        return {f"valid/{name}": value for name, value in entry["valid"].items()}
    named = {name: entry[name] for name in ("loss", "learning_rate", "gradient", "tokens")}
    parts = entry["parts"] if len(entry["parts"]) > 1 else {}
    return {
        **{f"train/{name}": value for name, value in named.items()},
        **{f"parts/{name}": value for name, value in parts.items()},
        **{f"speed/{name}": value for name, value in entry["speed"].items()},
    }
