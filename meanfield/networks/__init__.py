"""Networks as records: layers, how they are composed, and architectures by name."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
