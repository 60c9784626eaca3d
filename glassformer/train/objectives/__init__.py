"""Training objectives, one module each.

Modules of this folder that register an objective are found by their decorator, and imported when a
recipe names the objective.
"""

from glassformer.train.objectives.objective import Example, Objective, TrainingBatch
from glassformer.train.objectives.registry import make_objective, objective_names

__all__ = ["Example", "Objective", "TrainingBatch", "make_objective", "objective_names"]
