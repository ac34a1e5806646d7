from .data_sources import digits as digits
from .data_sources import from_arrays as from_arrays
from .data_sources import from_cifar as from_cifar
from .data_sources import from_idx as from_idx
from .data_sources import from_npz as from_npz
from .data_sources import teacher as teacher
from .sets import Data as Data
