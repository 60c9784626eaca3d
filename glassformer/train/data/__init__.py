"""Training data: from files to batches of token ids, in an order that a seed determines.

>>> store = prepare(settings, "train", objective, cache, about={...})
>>> loader = make_loader(settings, store, objective, context=1024, seed=1, batch=32)
>>> loader.batches(step)
"""

from glassformer.train.data.data_config import DataSettings
from glassformer.train.data.loader import Loader, make_loader
from glassformer.train.data.memmap_dataset import MemmapDataset
from glassformer.train.data.records import Records
from glassformer.train.data.tokenize_dataset import prepare

__all__ = [
    "DataSettings",
    "Loader",
    "MemmapDataset",
    "Records",
    "make_loader",
    "prepare",
]
