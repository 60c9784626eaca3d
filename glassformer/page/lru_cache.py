"""A thread-safe LRU cache with a weight limit."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

Value = TypeVar("Value")


class LruCache(Generic[Value]):
    """Keeps the most recently used values up to a total weight.

    Args:
        most: The maximum sum of weights; one value is kept regardless of its weight.
        weigh: Returns the weight of a value.
    """

    def __init__(self, most: float, weigh: Callable[[Value], float] = lambda value: 1) -> None:
        self.most, self.weigh = most, weigh
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._weight = 0.0
        self._lock = Lock()

    def get(self, key: Hashable) -> Value | None:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: Hashable, value: Value) -> Value:
        with self._lock:
            if key in self._values:
                self._weight -= self.weigh(self._values.pop(key))
            self._values[key] = value
            self._weight += self.weigh(value)
            while self._weight > self.most and len(self._values) > 1:
                self._weight -= self.weigh(self._values.popitem(last=False)[1])
        return value
