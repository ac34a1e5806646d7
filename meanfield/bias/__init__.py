"""The initial guessing bias: where it ends, its phases, and the fractions of inputs in each class."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
