"""What a result rests on, as BibTeX: the library, and the papers whose statements its kind was compared with."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from meanfield.base.answers.export import Result
from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import shown, validated
from meanfield.base.quantities import FINITE_WIDTH
from meanfield.networks.folds import dense_of, parts
from meanfield.networks.records import Block, Schedule

#: key → (kind of entry, fields); the keys of the first five are the folders of `derivations`
ENTRIES: dict[str, tuple[str, dict[str, str]]] = {
    "partial_jacobians": (
        "misc",
        {
            "author": "Doshi, Darshil and He, Tianyu and Gromov, Andrey",
            "title": "Critical Initialization of Wide and Deep Neural Networks through Partial Jacobians: "
            "General Theory and Applications",
            "eprint": "2111.12143",
            "year": "2021",
        },
    ),
    "autoinit": (
        "misc",
        {
            "author": "He, Tianyu and Doshi, Darshil and Gromov, Andrey",
            "title": "{AutoInit}: Automatic Initialization via {Jacobian} Tuning",
            "eprint": "2206.13568",
            "year": "2022",
        },
    ),
    "variance_variation": (
        "misc",
        {
            "author": "Yang, Greg and Schoenholz, Sam S.",
            "title": "Deep Mean Field Theory: Layerwise Variance and Width Variation as Methods to Control Gradient "
            "Explosion",
            "year": "2018",
        },
    ),
    "bias_and_trainability": (
        "misc",
        {
            "author": "Bassi, Alberto and Baity-Jesi, Marco and Lucchi, Aurelien and Albert, Carlo and "
            "Francazi, Emanuele",
            "title": "When Bias Meets Trainability: Connecting Theories of Initialization",
            "eprint": "2505.12096",
            "year": "2025",
        },
    ),
    "orthogonal_weights": (
        "misc",
        {
            "author": "Day, Hannah and Kahn, Yonatan and Roberts, Daniel A.",
            "title": "Feature Learning and Generalization in Deep Networks with Orthogonal Weights",
            "eprint": "2310.07765",
            "year": "2023",
        },
    ),
    "nngp": (
        "inproceedings",
        {
            "author": "Lee, Jaehoon and Bahri, Yasaman and Novak, Roman and Schoenholz, Samuel S. and "
            "Pennington, Jeffrey and Sohl-Dickstein, Jascha",
            "title": "Deep Neural Networks as {Gaussian} Processes",
            "booktitle": "International Conference on Learning Representations",
            "year": "2018",
        },
    ),
    "ntk": (
        "inproceedings",
        {
            "author": "Jacot, Arthur and Gabriel, Franck and Hongler, Cl{\\'e}ment",
            "title": "Neural Tangent Kernel: Convergence and Generalization in Neural Networks",
            "booktitle": "Advances in Neural Information Processing Systems",
            "year": "2018",
        },
    ),
    "linearized": (
        "inproceedings",
        {
            "author": "Lee, Jaehoon and Xiao, Lechao and Schoenholz, Samuel S. and Bahri, Yasaman and Novak, Roman and "
            "Sohl-Dickstein, Jascha and Pennington, Jeffrey",
            "title": "Wide Neural Networks of Any Depth Evolve as Linear Models Under Gradient Descent",
            "booktitle": "Advances in Neural Information Processing Systems",
            "year": "2019",
        },
    ),
    "poole": (
        "inproceedings",
        {
            "author": "Poole, Ben and Lahiri, Subhaneil and Raghu, Maithra and Sohl-Dickstein, Jascha and "
            "Ganguli, Surya",
            "title": "Exponential Expressivity in Deep Neural Networks through Transient Chaos",
            "booktitle": "Advances in Neural Information Processing Systems",
            "year": "2016",
        },
    ),
    "schoenholz": (
        "inproceedings",
        {
            "author": "Schoenholz, Samuel S. and Gilmer, Justin and Ganguli, Surya and Sohl-Dickstein, Jascha",
            "title": "Deep Information Propagation",
            "booktitle": "International Conference on Learning Representations",
            "year": "2017",
        },
    ),
    "pdlt": (
        "book",
        {
            "author": "Roberts, Daniel A. and Yaida, Sho and Hanin, Boris",
            "title": "The Principles of Deep Learning Theory",
            "publisher": "Cambridge University Press",
            "year": "2022",
        },
    ),
    "layernorm": (
        "misc",
        {
            "author": "Ba, Jimmy Lei and Kiros, Jamie Ryan and Hinton, Geoffrey E.",
            "title": "Layer Normalization",
            "eprint": "1607.06450",
            "year": "2016",
        },
    ),
}
OWN = ("partial_jacobians", "autoinit", "variance_variation", "bias_and_trainability", "orthogonal_weights")
#: names of quantities → the paper that has them
OF_QUANTITIES = {
    **dict.fromkeys(FINITE_WIDTH, "orthogonal_weights pdlt"),
    **dict.fromkeys(("gamma", "log_gamma", "sigma_mu2", "sigma_y2", "G0", "delta2"), "bias_and_trainability"),
    **dict.fromkeys(("fisher", "G_z", "G_w", "G_b"), "variance_variation"),
    **dict.fromkeys(("J", "chi", "J_ab"), "partial_jacobians"),
    **dict.fromkeys(("c", "K_ab", "distance"), "poole"),
    "Theta": "ntk",
    "Theta_ab": "ntk",
}
#: kinds of results → what they rest on, whatever they hold
OF_KINDS = {
    **dict.fromkeys(("CriticalPoint", "CriticalPoints", "Summary", "Entry"), "partial_jacobians schoenholz pdlt"),
    **dict.fromkeys(("CriticalLine", "Phase", "PhaseDiagram"), "partial_jacobians poole schoenholz"),
    **dict.fromkeys(("FixedPoint", "FixedPoints"), "partial_jacobians poole"),
    **dict.fromkeys(("Correlations",), "poole schoenholz"),
    **dict.fromkeys(("PhaseTable", "PhaseOrders", "ScheduledLaw", "WidthSchedule"), "variance_variation"),
    **dict.fromkeys(("ProjectionLaw",), "variance_variation"),
    **dict.fromkeys(("Bias", "BiasDiagram", "ClassFraction", "CorrelationLine"), "bias_and_trainability"),
    **dict.fromkeys(("Tuning", "TuningRates"), "autoinit"),
    **dict.fromkeys(("ClassLaw", "CriticalShift", "CorrelatorLaw", "Correlators"), "orthogonal_weights pdlt"),
    "Recommendation": "partial_jacobians",
    "Prediction": "nngp ntk linearized",
    "Kernels": "nngp",
    "KernelOperator": "nngp",
}


@validated
def cite(*what: Any) -> str:
    """BibTeX of what a result rests on: the library, and the papers whose statements about such results were compared
    with what is derived here (`python -m derivations.KEY` compares them again).

    what: results of any verbs, theories or architecture records, one or several. Raises: MeanFieldError for other
    things, and for none.

    >>> from meanfield import derive
    >>> print(cite(derive("relu").kernel([[1.0]], sigma_w=1, sigma_b=0, depth=2)).count("@inproceedings"))
    3
    """
    if not what:
        raise MeanFieldError("There is nothing to cite; give a result, a theory or a record.")
    held = set().union(*map(keys_of, what))
    keys = [k for k in ENTRIES if k in held]
    package: Any = sys.modules["meanfield"]
    own = {
        "author": "{The meanfield developers}",
        "title": "{meanfield}: a theory engine for wide random neural networks at initialization",
        "note": f"version {package.__version__}",
    }
    return "\n\n".join([_entry("misc", "meanfield", own), *(_entry(ENTRIES[k][0], k, ENTRIES[k][1]) for k in keys)])


def keys_of(what: Any) -> tuple[str, ...]:
    """The keys of the papers that a result, a theory or a record rests on, in one order."""
    found: set[str] = set()
    block = what if isinstance(what, Block) else getattr(what, "block", None)
    if isinstance(block, Block):
        found |= _of_block(block)
    elif not isinstance(what, Result):
        raise MeanFieldError(f"A result, a theory or a record can be cited, but {shown(what)} was given.")
    found |= set(OF_KINDS.get(type(what).__name__, "").split())
    found |= {key for n in _quantities(what) for key in OF_QUANTITIES.get(n, "").split()}
    if not found and not isinstance(block, Block):
        found.add("partial_jacobians")
    return tuple(k for k in ENTRIES if k in found)


def _quantities(what: Any) -> Iterable[str]:
    """The names of what a result holds."""
    for name in ("quantities", "names"):
        held = getattr(what, name, None)
        if isinstance(held, (tuple, list)) and all(isinstance(n, str) for n in held):
            return held
    values, one = getattr(what, "values", None), getattr(what, "quantity", None)
    return tuple(values) if isinstance(values, dict) else (one,) if isinstance(one, str) else ()


def _of_block(block: Block) -> set[str]:
    """What an architecture alone says: orthogonal weights, variances that fall, BatchNorm."""
    found = {"partial_jacobians"}
    if any(d.weights in ("orthogonal", "mixed") for d in dense_of(block)):
        found.add("orthogonal_weights")
    if any(isinstance(s, Schedule) for d in dense_of(block) for s in (d.sigma_w, d.sigma_b)):
        found.add("variance_variation")
    if any(one.normalizes == "batch" for one in parts(block)):
        found.add("autoinit")
    if any(one.normalizes == "neurons" for one in parts(block)):
        found.add("layernorm")
    return found


def _entry(kind: str, key: str, fields: dict[str, str]) -> str:
    rows = dict(fields)
    if "eprint" in rows:
        rows["archiveprefix"] = "arXiv"
    told = f"% its statements, compared with what is derived here: python -m derivations.{key}\n" * (key in OWN)
    body = ",\n".join(f"  {name} = {{{value}}}" for name, value in rows.items())
    return f"{told}@{kind}{{{key},\n{body}\n}}"
