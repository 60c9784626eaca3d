"""Training batches: records become stored examples, rows and batches in a seeded order.

>>> store = prepare(settings, "train", objective, cache, about={...})
>>> loader = make_loader(settings, store, objective, context=1024, seed=1, batch=32)
>>> loader.batches(step)
"""

from glassformer.train.batches.loader import DataModule, Loader, make_loader
from glassformer.train.batches.memmap_dataset import MemmapDataset
from glassformer.train.batches.tokenize_dataset import prepare

__all__ = ["DataModule", "Loader", "MemmapDataset", "make_loader", "prepare"]
