"""A server for one's own browser. Questions come in, what `inside` finds goes out."""

from glassformer.page.server import Server
from glassformer.page.session import Session

__all__ = ["Server", "Session"]
