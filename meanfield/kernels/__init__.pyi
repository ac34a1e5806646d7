from .kernel_matrices import KernelOperator as KernelOperator
from .kernel_matrices import Kernels as Kernels
