from . import symbols as symbols
