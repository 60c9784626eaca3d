"""Whatever is found has a notebook display, and becomes a file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path


class Displayable(ABC):
    """Shows itself in a notebook; `show/` has the pictures."""

    @abstractmethod
    def _repr_html_(self) -> str: ...

    @property
    def heading(self) -> str:
        """The title of a file."""
        return repr(self)

    def save_html(self, path: str | Path) -> None:
        """One file that needs nothing else."""
        from glassformer.inside.show.html import save

        save(path, self.heading, self._repr_html_())
