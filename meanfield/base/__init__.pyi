from . import symbols as symbols
from .answers import results as results
