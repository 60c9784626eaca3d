"""Request handlers of the page, one module per panel.

Handlers compute nothing themselves: they call `inside` and convert the results to the types that
they declare. All modules of this package are imported, so that their routes are registered.
"""

from importlib import import_module
from pkgutil import iter_modules

from glassformer.page.routes import ROUTES

for module in iter_modules(__path__):
    import_module(f"{__name__}.{module.name}")


__all__ = ["ROUTES"]
