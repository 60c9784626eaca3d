"""Training objectives, one module each.

Modules of this folder that register an objective are found automatically.
"""

from glassformer.train.objectives.objective import Example, Objective, TrainingBatch
from glassformer.train.objectives.registry import make_objective, objectives

__all__ = ["Example", "Objective", "TrainingBatch", "make_objective", "objectives"]
