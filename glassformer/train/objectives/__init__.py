"""What a model is to learn from its texts, one file for every kind.

A file in this folder that names an objective is found; nothing else has to be told about it.
"""

from glassformer.train.objectives.objective import Example, Objective, Record, TrainingBatch
from glassformer.train.objectives.registry import make_objective, objectives

__all__ = ["Example", "Objective", "Record", "TrainingBatch", "make_objective", "objectives"]
