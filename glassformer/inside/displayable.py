"""Base class for results with a notebook display and HTML export."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path


class Displayable(ABC):
    """A result that renders as HTML in a notebook; `show/` contains the rendering code."""

    @abstractmethod
    def _repr_html_(self) -> str: ...

    @property
    def heading(self) -> str:
        """The title of the saved HTML file."""
        return repr(self)

    def save_html(self, path: str | Path) -> None:
        """Saves the display as one self-contained HTML file.

        Args:
            path: The path of the file.
        """
        from glassformer.inside.show.html import save

        save(path, self.heading, self._repr_html_())
