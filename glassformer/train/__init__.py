"""Training: `gf.train("recipe.toml")` trains a model and writes a run folder."""

from __future__ import annotations

from glassformer.callable_package import make_callable

make_callable(__name__, "glassformer.train.trainer", "train")
