"""More models of Glassformer's zoo: `gf.load("zoo:NAME")` finds them here.

Each folder has a model in the published layout and its card (README.md).
"""

__version__ = "0.2.0"
