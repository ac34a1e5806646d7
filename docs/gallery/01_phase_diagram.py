"""
Phase diagram of GELU
=====================

χ_J* over the plane of standard deviations, for inputs of squared norm N_0. Stars are the certified
critical points; the critical line is dashed where its fixed point is unstable.
"""

import meanfield as mf

mf.derive("gelu").phase_diagram().plot()
