"""Training objectives, one module each.

Modules of this folder that register an objective are found automatically.
"""

from glassformer.train.objectives.objective import Example, Objective, Record, TrainingBatch
from glassformer.train.objectives.registry import make_objective, objectives

__all__ = ["Example", "Objective", "Record", "TrainingBatch", "make_objective", "objectives"]
