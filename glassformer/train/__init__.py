"""Training: `gf.train("recipe.toml")` or `gf.train("classify", rows)` writes a run folder."""

from __future__ import annotations

from glassformer.callable_package import make_callable

make_callable(__name__, "glassformer.train.entry", "train")
