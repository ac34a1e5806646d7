from . import results as results
from . import symbols as symbols
