"""Data files: text, JSON lines, tables, CoNLL, SQuAD, parallel texts and token ids as records.

>>> for record in Records(DataSettings(train=("reviews.csv",), format="csv"), "train"):
...     print(record["text"])
"""

from glassformer.data.data_config import DataSettings
from glassformer.data.record import Record, RecordError
from glassformer.data.records import Records

__all__ = ["DataSettings", "Record", "RecordError", "Records"]
