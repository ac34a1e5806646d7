"""
Theory and two hundred networks
===============================

K and J of tanh with a skip, layer by layer: the lines are the theory of infinite width, the points
the means of 200 networks of width 200 with two standard errors. Nothing is fitted.
"""

import meanfield as mf

theory = mf.derive("tanh", residual=True)
report = mf.check(theory, sigma_w=1.2, sigma_b=0.1, width=200, depth=20, networks=200, seed=0)
report.plot()
