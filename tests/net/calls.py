"""The calls, as text: many activations, architectures and quantities, each call cheap."""

from __future__ import annotations

SMOOTH = ("tanh", "erf", "gelu", "silu", "sin", "softplus", "arctan", "mish")
KINKED = ("relu", "leaky_relu(0.2)", "elu", "hard_tanh", "hard_swish", "abs(z)")
FORMULAS = ("z*erf(z)", "z*exp(-z**2)", "clip(z,-1,2)+z**2/10", "tanh(z)+z/3", "sign(z)+tanh(z)/2", "z/(1+abs(z))")
EVERY = SMOOTH + KINKED + FORMULAS
BLOCKS = (
    "'tanh', residual=True",
    "'relu', residual=True, mu='1/2'",
    "'gelu', norm='pre'",
    "'relu', norm='act', residual=True",
    "'erf', weights='orthogonal'",
    "architecture=mf.Sequential((mf.Nonlinearity('tanh'), mf.Dense(sigma_b=1), mf.Nonlinearity('erf'), mf.Dense()))",
    "'relu', architecture='full_residual', sigma_v='1/2', sigma_a='1/3'",
    "'softsign', residual=0.4",
)
PLACES = ("sigma_w=1.2, sigma_b=0.3", "sigma_w=0.7, sigma_b=0.1", "sigma_w=2.1, sigma_b=0")
EXACT = ("sigma_w='6/5', sigma_b='3/10'", "sigma_w='7/10', sigma_b='1/10'")
ROWS = "[[1.0, 0.5], [-0.3, 2.0], [0.9, 0.45], [0.1, -0.2]]"


def _runs() -> list[str]:
    out = [f"mf.derive({f!r}).propagate({PLACES[i % 2]}, depth=12, quantities='K')" for i, f in enumerate(EVERY)]
    continuous = [f for f in EVERY if "sign" not in f or f.startswith("soft")]
    out += [
        f"mf.derive({f!r}).propagate({PLACES[i % 3]}, depth=9, quantities=('K', 'J', 'Theta'))"
        for i, f in enumerate(continuous)
    ]
    out += [
        f"mf.derive({f!r}).propagate({PLACES[i % 2]}, depth=8, correlation=.4, quantities=('K', 'c', 'distance'))"
        for i, f in enumerate(EVERY[::2])
    ]
    out += [
        f"mf.derive({f!r}).propagate({PLACES[i % 2]}, depth=7, start={{'K_aa': 1.0, 'K_bb': 2.5, 'K_ab': .3}})"
        for i, f in enumerate(("tanh", "relu", "erf", "elu"))
    ]
    for i, block in enumerate(BLOCKS):
        given = PLACES[0] if "norm" in block else PLACES[i % 2]
        out.append(f"mf.derive({block}).propagate({given}, depth=10)")
        out.append(f"mf.derive({block}).propagate({given}, depth=6, correlation=-.2)")
    out += [
        f"mf.derive({f!r}).propagate(sigma_w=[.5, 1.0, 2.0], sigma_b=.1, depth=5, quantities=('K', 'J'))"
        for f in ("tanh", "relu", "silu")
    ]
    out.append("mf.derive('tanh').propagate(sigma_w=[1.0, 1.5, .7], sigma_b=.1, depth=3, layerwise=True)")
    out.append("mf.derive('erf').propagate(sigma_w=.8, sigma_b=0, correlation=.5, depth=4000, every_layer=False)")
    out.append("mf.derive('relu').propagate(sigma_w=2, sigma_b=0, depth=1200, every_layer=False)")
    out += [
        f"mf.derive({f!r}).propagate(sigma_w=1.3, sigma_b=.2, depth=6, quantities=('K', 'V', 'F'))"
        for f in ("tanh", "relu", "erf")
    ]
    return out


def _kernels() -> list[str]:
    out = []
    for i, f in enumerate(("tanh", "erf", "relu", "gelu", "sin", "abs(z)", "hard_tanh", "softplus")):
        for q in ("'K'", "('K', 'Theta')", "('K', 'distance')"):
            if q == "'K'" or i < 4:
                out.append(f"mf.derive({f!r}).kernel({ROWS}, {PLACES[i % 2]}, depth=4, quantities={q})")
    out.append(f"mf.derive('sign').kernel({ROWS}, sigma_w=1.1, sigma_b=.2, depth=3, quantities=('K', 'distance'))")
    out.append(f"mf.derive('erf', residual=True).kernel({ROWS}, sigma_w=1.1, sigma_b=.2, depth=5)")
    out.append(f"mf.derive('relu', norm='pre').kernel({ROWS}, sigma_w=1.1, sigma_b=.2, depth=5, quantities='K')")
    out.append(f"mf.derive('erf').kernel({ROWS}, [[1.0, 1.0]], sigma_w=1.1, sigma_b=.2, depth=3)")
    return out


def _maps() -> list[str]:
    out = [f"mf.derive({f!r}).fixed_points({EXACT[i % 2]})" for i, f in enumerate(EVERY)]
    out += [f"mf.derive({f!r}).phase({EXACT[(i + 1) % 2]})" for i, f in enumerate(EVERY)]
    out += [f"mf.derive({f!r}).critical_points()" for f in ("tanh", "erf", "relu", "gelu", "silu", "sin", "abs(z)")]
    out += [f"mf.derive({f!r}).critical_line()" for f in ("tanh", "relu", "erf", "hard_tanh")]
    out += [f"mf.derive({f!r}).correlations({EXACT[i % 2]})" for i, f in enumerate(("tanh", "relu", "erf", "sign"))]
    out += [f"mf.derive({f!r}).bias({EXACT[i % 2]})" for i, f in enumerate(("tanh", "relu", "erf", "sin"))]
    out += [f"mf.derive({b}).fixed_points({EXACT[1]})" for b in BLOCKS if "full" not in b]
    out += [f"mf.derive({f!r}).neutrality_line()" for f in ("tanh", "erf")]
    grid = "sigma_w=np.linspace(.5, 2.0, 5), sigma_b=[0, .4, 1.0]"
    out += [f"mf.derive({f!r}).phase_diagram({grid}, line=False)" for f in ("tanh", "relu", "gelu", "erf")]
    out.append(f"mf.derive('erf').phase_diagram({grid}, quantity='gamma', line=False)")
    return out


def _laws() -> list[str]:
    out = []
    for f in ("tanh", "erf", "relu", "gelu", "sin", "hard_tanh", "leaky_relu(0.2)"):
        out += [f"mf.derive({f!r}).depth_law({q!r}, sigma_w='6/5', sigma_b='3/10')" for q in ("K", "J")]
        out += [f"mf.derive({f!r}).expansions(2)", f"mf.derive({f!r}).recursion('K', 'J', 'Theta')"]
    out += [
        f"mf.derive({f!r}).depth_law({q!r}, sigma_w=1, sigma_b=0)" for f in ("tanh", "sin") for q in ("K", "J", "Theta")
    ]
    out += [
        f"mf.derive({f!r}, residual=True).depth_law({q!r}, sigma_w=1, sigma_b=0)"
        for f in ("tanh", "relu", "erf")
        for q in ("K", "J")
    ]
    out += [f"mf.derive({f!r}).depth_law('c', sigma_w='6/5', sigma_b='3/10')" for f in ("tanh", "relu", "erf")]
    out += [f"mf.derive('tanh').depth_law({q!r}, sigma_w=1, sigma_b=0)" for q in ("V", "distance")]
    out.append(
        "mf.derive('relu', architecture='full_residual', sigma_v='1/2').depth_law('K', sigma_w=1, sigma_a=1, sigma_b=0)"
    )
    out += [f"str(mf.derive({f!r}).table())" for f in ("tanh", "relu", "erf")]
    out += [f"mf.derive({f!r}).latex()" for f in ("tanh", "relu")]
    out += [f"mf.derive({b}).recursion('K', 'J')" for b in BLOCKS]
    falling = ", ".join(f"beta_{s}='beta_{s}'" for s in "vwab")
    out.append(f"str(mf.derive('relu', architecture='full_residual', {falling}).phase_table('K'))")
    return out


def _others() -> list[str]:
    out = [
        f"mf.certified(mf.average({e}, sp.Rational(7, 5)), 20)"
        for e in ("sp.tanh(z)**2", "z**4*sp.erf(z)**2", "sp.Abs(z)*sp.cos(z)", "sp.exp(-z**2)")
    ]
    out += [
        "mf.symbolic.weingarten((2, 1))",
        "mf.symbolic.weingarten((3, 1, 1), n=9)",
        "mf.symbolic.haar_moment([1, 1, 2], [1, 2, 2])",
    ]
    out += [
        f"mf.measure({f!r}, sigma_w=1.2, sigma_b=.1, width=40, depth=5, networks=6, seed=3)"
        for f in ("tanh", "relu", "erf")
    ]
    out.append("mf.measure('tanh', sigma_w=1.2, sigma_b=.1, width=40, depth=5, networks=6, seed=3, correlation=.3)")
    out.append(
        "mf.measure('relu', sigma_w=1.2, sigma_b=.1, width=30, depth=4, networks=10, seed=5, sampler='explicit')"
    )
    out.append("mf.check('tanh', sigma_w=1.2, sigma_b=.1, width=60, depth=6, networks=30, seed=1)")
    out += [f"mf.recommend({f!r}, depth=30, width=100)" for f in ("tanh", "relu", "gelu")]
    for f in ("tanh", "relu", "gelu", "erf", "hard_tanh", "softplus"):
        out += [
            f"str(mf.derive({f!r}).averages())",
            f"mf.derive({f!r}).susceptibilities()",
            f"mf.derive({f!r}).source('K')",
        ]
    out += [f"mf.symbolic.class_law({q!r})" for q in ("V", "Theta", "D")]
    out += [f"mf.activation({f!r})" for f in FORMULAS]
    for block in BLOCKS[:5]:
        out.append(f"mf.derive({block}).latex()")
    for f in ("tanh", "relu"):
        out += [f"mf.derive({f!r}).correlator_map({q!r})" for q in ("V", "F")]
        out.append(f"mf.derive({f!r}).derivation('V')")
    out += [f"mf.derive('relu', weights={w!r}).recursion('V')" for w in ("gaussian", "orthogonal", "uniform")]
    out += [f"mf.derive({b}).depth_law({q!r}, sigma_w='6/5', sigma_b='3/10')" for b in BLOCKS[:5] for q in ("K", "J")]
    out.append("mf.derive('relu').width_schedule(width=64, depth=9, sigma_w=1.5, sigma_b=0)")
    out.append("mf.derive('tanh', residual=True).projection_law(sigma_w=1, sigma_b=0)")
    out.append(
        "mf.derive('relu').correlators([[1.0, 2.0], [0.5, -1.0]], sigma_w=1.2, sigma_b=.1, depth=3, quantities='V')"
    )
    out.append("mf.derive('tanh').critical_shift()")
    out.append("mf.symbolic.linear_moments(2, 3)")
    return out


CALLS: tuple[str, ...] = tuple(dict.fromkeys(_runs() + _kernels() + _maps() + _laws() + _others()))
