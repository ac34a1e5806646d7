from .matrices import KernelOperator as KernelOperator
from .matrices import Kernels as Kernels
