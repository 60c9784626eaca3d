"""Training objectives, one module each.

Modules of this folder that register an objective are found by their decorator, and imported when a
recipe names the objective.
"""

from glassformer.train.objectives.objective import Objective, TrainingBatch
from glassformer.train.objectives.registry import make_objective, objective_names
from glassformer.train.objectives.rows import Example

__all__ = ["Example", "Objective", "TrainingBatch", "make_objective", "objective_names"]
