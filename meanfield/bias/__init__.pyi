from .class_fraction import ClassFraction as ClassFraction
from .guessing import BiasPhase as BiasPhase
from .guessing import bias_recursion as bias_recursion
from .guessing import variance_over_inputs as variance_over_inputs
from .initial import Bias as Bias
