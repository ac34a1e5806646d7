from .monomial import Monomial as Monomial
from .scaling import Parametrization as Parametrization
from .scaling import Scaling as Scaling
from .schemes import parametrization as parametrization
