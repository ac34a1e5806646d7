"""Public initializations by name, and what they do: laws of matrices, recipes, reports."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
