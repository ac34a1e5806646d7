"""Exact in, exact out: averages, recursions, fixed points, laws, and the algebra of finite width."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
