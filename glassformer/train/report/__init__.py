"""What a run folder tells of its run. Pictures, a card, TensorBoard, W&B."""

from __future__ import annotations

from glassformer.train.recipe import RunSettings
from glassformer.train.report.about import AboutReporter
from glassformer.train.report.card import Card
from glassformer.train.report.plots import Plots
from glassformer.train.report.tensorboard import TensorBoard, is_wanted
from glassformer.train.report.wandb import Wandb
from glassformer.train.reporter import Reporter


def own_reporters(settings: RunSettings) -> list[Reporter]:
    """Those that write into the run folder, as a recipe's [run] asks for."""
    reporters: list[Reporter] = [AboutReporter(), Plots(), Card()]
    if is_wanted(settings):
        reporters.append(TensorBoard())
    if settings.wandb is not None:
        reporters.append(Wandb(settings.wandb))
    return reporters
