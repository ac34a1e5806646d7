"""Prediction: what the kernels say of trained wide networks, in closed form where there is one."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
