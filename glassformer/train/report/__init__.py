"""Reporters that write to the run folder: plots, a model card, TensorBoard and W&B."""

from __future__ import annotations

from glassformer.train.recipe import RunSettings
from glassformer.train.report.about import AboutReporter
from glassformer.train.report.card import Card
from glassformer.train.report.plots import Plots
from glassformer.train.report.tensorboard import TensorBoard, is_wanted
from glassformer.train.report.wandb import Wandb
from glassformer.train.reporter import Reporter


def own_reporters(settings: RunSettings) -> list[Reporter]:
    """Returns the reporters that a recipe's [run] table configures."""
    reporters: list[Reporter] = [AboutReporter(), Plots(), Card()]
    if is_wanted(settings):
        reporters.append(TensorBoard())
    if settings.wandb is not None:
        reporters.append(Wandb(settings.wandb))
    return reporters
