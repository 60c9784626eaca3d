"""Train room, objectives: what a model is to learn from its texts, one file for every kind.

A file in this folder that names an objective is found; nothing else has to be told about it.
"""

from glassformer.train.objectives.objective import Batch, Example, Objective, Record
from glassformer.train.objectives.registry import make_objective, objectives

__all__ = ["Batch", "Example", "Objective", "Record", "make_objective", "objectives"]
