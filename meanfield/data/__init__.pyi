from .sets import Data as Data
from .sources import digits as digits
from .sources import from_arrays as from_arrays
from .sources import from_cifar as from_cifar
from .sources import from_idx as from_idx
from .sources import from_npz as from_npz
from .sources import teacher as teacher
