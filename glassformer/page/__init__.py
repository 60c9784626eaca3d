"""A local web server that displays the results of `inside` in the user's own browser."""

from glassformer.page.server import Server
from glassformer.page.session import Session

__all__ = ["Server", "Session"]
