"""Finite-width random networks: the judge of the theory, which knows nothing of it.

It reads the same architecture record as the theory and shares no other code with it.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
