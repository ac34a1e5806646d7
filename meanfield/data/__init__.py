"""Data that networks are trained on: digits, teachers, files, and how they are prepared."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
