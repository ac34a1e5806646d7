"""
Which class does an untrained network prefer?
=============================================

The guessing bias over the plane of standard deviations of erf, with the line χ_J* = 1.
"""

import numpy as np

import meanfield as mf

axes = dict(sigma_w=np.linspace(0.5, 3, 40), sigma_b=np.linspace(0.02, 1, 40))
mf.derive("erf").phase_diagram(quantity="gamma", **axes).plot()
