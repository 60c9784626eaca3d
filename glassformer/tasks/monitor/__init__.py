"""Shares of labels over time, with alerts.

The names are imported on first use, because importing torch takes seconds.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glassformer.tasks.monitor.monitor import Monitor, watch, watch_labels

__all__ = ["Monitor", "watch", "watch_labels"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from glassformer.tasks.monitor import monitor

    return getattr(monitor, name)
