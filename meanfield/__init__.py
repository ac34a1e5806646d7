"""meanfield: a theory engine for wide random neural networks at initialization.

>>> theory = derive("erf")
>>> print(theory.recursion("K").doit())
K' = sigma_b**2 + 2*sigma_w**2*asin(2*K/(2*K + 1))/pi

What stands here is loaded when it is asked for; `__init__.pyi` says from where.
"""

import lazy_loader as lazy

from meanfield.base.leading import leading

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = leading(*lazy.attach_stub(__name__, __file__))
