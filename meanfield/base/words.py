"""What a name that is not known may have meant: a misspelling, or a word of the field for what has another name here.

>>> print(unknown("quantity", "NTK", ("K", "J", "Theta")))
Unknown quantity 'NTK': did you mean 'Theta'?
>>> print(unknown("weights", "cauchy", ("gaussian", "orthogonal")))
Unknown weights 'cauchy'; the choices are gaussian, orthogonal.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

from meanfield.base.errors import MeanFieldError

_SHOWN = 60  # characters of a value that a sentence repeats
#: a word of the field, in small letters and digits alone → names here, of which those that are known are meant
WORDS: Mapping[str, str] = {
    # quantities
    **dict.fromkeys(("ntk", "tangentkernel", "neuraltangentkernel", "tangent"), "Theta Theta_ab"),
    **dict.fromkeys(("nngp", "kernel", "gpkernel", "variance", "qstar", "qaa", "preactivationvariance"), "K K_aa"),
    **dict.fromkeys(("covariance", "qab", "crosscovariance", "kab"), "K_ab"),
    **dict.fromkeys(("correlation", "cosine", "rho", "overlap", "cstar"), "c correlation"),
    **dict.fromkeys(("jacobian", "apjn", "partialjacobian", "jacobiannorm", "chi"), "J"),
    **dict.fromkeys(("fourpoint", "fourpointvertex", "kurtosis", "vertex"), "V"),
    **dict.fromkeys(("bias", "guessingbias", "igb", "classbias"), "gamma"),
    **dict.fromkeys(("squareddistance", "euclideandistance", "dist"), "distance"),
    **dict.fromkeys(("gradient", "gradients", "gradientnorm", "gradientnorms"), "G_z G_w G_b"),
    **dict.fromkeys(("fisherinformation", "fim"), "fisher"),
    # weights
    **dict.fromkeys(("haar", "orthonormal", "unitary", "isometry"), "orthogonal"),
    **dict.fromkeys(("normal", "iid", "gauss", "glorot", "xavier", "he", "kaiming", "lecun"), "gaussian"),
    # architectures and norms
    **dict.fromkeys(("prelayernorm", "prenorm", "preln"), "preln"),
    **dict.fromkeys(("postlayernorm", "postnorm", "postln"), "postln"),
    **dict.fromkeys(("residual", "residualnetwork", "resnet"), "resnet"),
    **dict.fromkeys(("fc", "fcn", "fullyconnected", "feedforward", "dense", "perceptron"), "mlp"),
    **dict.fromkeys(("mixer", "mlpmixer"), "mlp_mixer"),
    **dict.fromkeys(("batchnorm", "bn", "batchnormalization"), "batchnorm_mlp"),
    **dict.fromkeys(("transformer", "gpt2", "gpt3", "nanogpt", "decoder", "decoderonly", "vit"), "gpt"),
    **dict.fromkeys(("bert", "encoder", "vaswani", "roberta"), "encoder_postln"),
    **dict.fromkeys(("llama2", "llama3", "mistral", "qwen", "olmo"), "llama"),
    **dict.fromkeys(("perinorm", "periln", "sandwich", "gemma2"), "peri"),
    **dict.fromkeys(("glu", "geglu", "swiglu", "gated"), "swiglu"),
    **dict.fromkeys(("layernorm", "ln", "layernormalization", "norm"), "pre act norm LayerNorm"),
    **dict.fromkeys(("nonorm", "null", "false"), "none"),
    # arguments
    **dict.fromkeys(("weightstd", "wstd", "sw", "sigma", "sigmaweight", "weightscale"), "sigma_w"),
    **dict.fromkeys(("biasstd", "bstd", "sb", "sigmabias", "biasscale"), "sigma_b"),
    **dict.fromkeys(("layers", "nlayers", "numlayers", "l", "blocks"), "depth architecture"),
    **dict.fromkeys(("n", "hidden", "neurons", "hiddensize", "nhidden", "channels", "widths"), "width expand"),
    **dict.fromkeys(("width", "outfeatures", "features", "units", "ratio"), "width expand"),
    "network": "networks",
    **dict.fromkeys(("depths", "numberoflayers"), "depth"),
    **dict.fromkeys(("samples", "nnetworks", "nnets", "draws", "repeats", "trials"), "networks draws"),
    "ensemble": "networks draws measure",
    **dict.fromkeys(("q0", "inputvariance", "inputnorm", "norm0", "xnorm"), "input_norm"),
    **dict.fromkeys(("n0", "nin", "inputsize", "fanin", "indim"), "input_dimension"),
    **dict.fromkeys(("c0", "inputcorrelation", "inputcosine"), "correlation"),
    **dict.fromkeys(("observables", "observable", "what", "of", "quantity", "kind", "get"), "quantities quantity"),
    **dict.fromkeys(("randomseed", "randomstate", "rng", "key"), "seed"),
    **dict.fromkeys(("act", "nonlinearity", "activationfunction", "phi", "fn"), "activation Nonlinearity"),
    **dict.fromkeys(("skip", "skipconnection", "shortcut"), "residual mu"),
    **dict.fromkeys(("skipstrength", "strength", "alpha"), "mu"),
    # verbs
    **dict.fromkeys(("criticalpoint", "criticality", "edgeofchaos"), "critical_points"),
    **dict.fromkeys(("fixedpoint",), "fixed_points"),
    **dict.fromkeys(("run", "forward", "iterate"), "propagate"),
    **dict.fromkeys(("kernels", "ntkmatrix", "gram", "kernelfn"), "kernel"),
    **dict.fromkeys(("law", "asymptotics", "largedepth", "scaling"), "depth_law"),
    **dict.fromkeys(("phases", "diagram", "phaseplot", "plotphasediagram"), "phase_diagram"),
    **dict.fromkeys(("chij", "chik", "susceptibility"), "susceptibilities"),
    **dict.fromkeys(("map", "maps", "recursions", "recurrence"), "recursion"),
    **dict.fromkeys(("tolatex", "tex"), "latex"),
    **dict.fromkeys(("todataframe", "dataframe", "topandas", "df"), "to_frame"),
    **dict.fromkeys(("todataset", "dataset"), "to_xarray"),
    **dict.fromkeys(("evaluate", "value", "call", "eval"), "at"),
    **dict.fromkeys(("savefig", "tofile", "write", "dump"), "save"),
    **dict.fromkeys(("verify", "validate", "compare", "test"), "check"),
    "simulate": "measure",
    **dict.fromkeys(("init", "initialize", "initialization", "initializer"), "recommend"),
    **dict.fromkeys(("gain", "calculategain", "nonlinearitygain"), "gains"),
    # records and their makers
    **dict.fromkeys(("linear", "fullyconnectedlayer", "affine"), "Dense"),
    **dict.fromkeys(("relu", "gelu", "activationlayer"), "Nonlinearity"),
    **dict.fromkeys(("registeractivation", "addactivation"), "register"),
    **dict.fromkeys(("serial", "chain"), "Sequential"),
}

#: words for what is not there, and what to do instead
MISSING: Mapping[str, str] = {
    **dict.fromkeys(
        ("cnn", "conv", "convolution", "convnet", "resnet18", "resnet50", "convolutional"),
        "Convolutions are not described here: a Dense(axis='tokens') mixes positions without sharing weights, and "
        "Pool joins nodes",
    ),
    **dict.fromkeys(
        ("attention", "selfattention", "mha", "multiheadattention"),
        "Attention is a record, meanfield.networks.Attention(heads); architecture='gpt' is a block with it",
    ),
    **dict.fromkeys(("rnn", "lstm", "gru", "recurrent"), "Weights shared between layers are not described here"),
    **dict.fromkeys(("dropout",), "Dropout is not described here"),
    **dict.fromkeys(("rms", "rmsnorm"), "It is a record, meanfield.networks.RMSNorm(); architecture='llama' has it"),
    "groupnorm": "It is no record here: docs/writing_a_layer.md adds it in thirty lines",
    **dict.fromkeys(
        ("chij", "chik", "chi1", "chiparallel", "susceptibility"),
        "It is a derivative of a map: susceptibilities() has its formula, fixed_points and phase its values",
    ),
    **dict.fromkeys(("batchnorm", "bn", "batch"), "BatchNorm is architecture='batchnorm_mlp'"),
    **dict.fromkeys(("post", "postln", "postnorm"), "A LayerNorm behind the skip is architecture='postln'"),
    **dict.fromkeys(
        ("points", "resolution", "npoints", "ngrid", "gridsize"),
        "An axis of a grid is (low, high, count), as in phase_diagram(sigma_w=(0, 3, 50), sigma_b=(0, 1, 20))",
    ),
    **dict.fromkeys(("cw", "sigmaw2", "weightvariance"), "It is sigma_w**2: give its root as sigma_w"),
    **dict.fromkeys(("cb", "sigmab2", "biasvariance"), "It is sigma_b**2: give its root as sigma_b"),
}


_NETWORKS = "mf.check(theory, ...) compares it with finite networks, and mf.measure(theory, ...) measures them"
_PROCESS = (
    "theory.predict(X, y, X_test, ...) has them; mf.nngp(...) and mf.ntk(...) are kernels for scikit-learn's "
    "GaussianProcessRegressor"
)
_TORCH = "mf.recommend(...).torch() is code to paste; no model is touched"
#: names that are looked for where they are not → what to call instead
ELSEWHERE: Mapping[str, str] = {
    **dict.fromkeys(("check", "simulate", "measure", "compare", "ensemble", "montecarlo"), _NETWORKS),
    **dict.fromkeys(("posterior", "predict", "gp", "gaussianprocess", "gppredict", "regression"), _PROCESS),
    **dict.fromkeys(("torch", "pytorch", "init", "initialize", "apply", "flax", "keras", "jax"), _TORCH),
    **dict.fromkeys(
        ("recommend", "initialization"), "mf.recommend(theory, depth=..., width=...) chooses sigma_w and sigma_b"
    ),
    **dict.fromkeys(
        ("std", "weightstd"),
        "weights have the standard deviation sigma_w / sqrt(fan_in); sigma_w, sigma_b and numbers() have them",
    ),
    **dict.fromkeys(
        ("sweep", "grid", "scan"),
        "propagate(sigma_w=[...], sigma_b=[...]) and phase_diagram(...) take lists, and have to_frame()",
    ),
    **dict.fromkeys(
        ("stax", "kernelfn", "nt", "neuraltangents"),
        "a network is a record, mf.Sequential((mf.Nonlinearity('relu'), mf.Dense())), and "
        "mf.derive(...).kernel(X, Y, depth=...) gives NNGP and NTK",
    ),
    **dict.fromkeys(("bibtex", "cite", "references", "citation", "reference"), "mf.cite(result) gives BibTeX"),
    **dict.fromkeys(
        ("claim", "checkclaim", "addclaim"),
        "mf.equal(a, b) compares two formulas; claims of papers are in derivations/, docs/extending.md adds one",
    ),
    **dict.fromkeys(
        ("layer", "module", "registerlayer", "customlayer", "groupnorm"),
        "a layer of your own is a record, a rule and an operation; docs/writing_a_layer.md writes one",
    ),
    **dict.fromkeys(
        ("resume", "checkpoint"), "the same call with the same checkpoint=... goes on where it was stopped"
    ),
    **dict.fromkeys(
        ("atcriticality", "critical", "criticalinit"), "derive(...).critical_points() has the critical sigma_w, sigma_b"
    ),
    **dict.fromkeys(("derive",), "mf.derive(...) makes a theory"),
    **dict.fromkeys(
        ("ntk", "nngp"), "kernel(X, ...) has K (NNGP) and Theta (NTK); mf.nngp and mf.ntk are for scikit-learn"
    ),
}


def absent(owner: str, name: str, known: Iterable[str], also: Iterable[str] = ()) -> str:
    """The sentence for an attribute that `owner` does not have: where it is, what it may have meant, or what there is.

    also: what may have been meant and is not listed.

    >>> print(absent("A Theory", "bibtex", ("recursion", "latex")))
    A Theory has no 'bibtex': mf.cite(result) gives BibTeX.
    >>> print(absent("A run", "to_dataframe", ("K", "to_frame")))
    A run has no 'to_dataframe': did you mean 'to_frame'?
    """
    names, own = list(known), canonical(name)
    found = close(name, [*names, *also])
    if own in ELSEWHERE and canonical(found) != own and found not in WORDS.get(own, "").split():
        return f"{owner} has no {name!r}: {ELSEWHERE[own]}."
    if found is not None:
        return f"{owner} has no {name!r}: did you mean {found!r}?"
    return f"{owner} has no {name!r}; it has {', '.join(names) or 'nothing by name'}."


def printable(value: object) -> bool:
    """Whether a value has a repr."""
    try:
        return isinstance(repr(value), str)
    except Exception:  # a foreign __repr__, or an integer too long to print
        return False


_LONGEST = 14_284  # bits: beyond, Python writes no number


def shown(value: object) -> str:
    """A value as a sentence repeats it: its repr, cut short, and never a second error."""
    if isinstance(value, int) and value.bit_length() > _LONGEST:
        return "a whole number of more than 4300 digits"
    if not printable(value):
        return f"a {type(value).__name__}"
    text = " ".join(repr(value).split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def canonical(word: object) -> str:
    """The word without capitals, spaces and punctuation."""
    return re.sub(r"[^a-z0-9]", "", str(word).lower())


def close(word: object, known: Iterable[str]) -> str | None:
    """The known name that a word most likely means; None where there is none."""
    names = list(known)
    plain = {canonical(n): n for n in reversed(names)}
    if (own := canonical(word)) in plain:
        return plain[own]
    meant = [n for n in WORDS.get(own, "").split() if n in names]
    if meant:
        return meant[0]
    lowered = {n.lower(): n for n in names}
    # of one or two letters every other one is near, and of four many are
    cutoff = 0.6 if len(str(word)) > 4 else 0.75
    found = difflib.get_close_matches(str(word).lower(), [n for n in lowered if len(n) > 2], n=1, cutoff=cutoff)
    return lowered[found[0]] if found and len(str(word)) > 2 else None


def meant(word: object, known: Iterable[str]) -> str:
    """" Did you mean …?" for a misspelt name or a word of the field, and otherwise what is known."""
    names = list(known)
    if (hint := guess(word, names)) != "":
        return hint
    if canonical(word) in MISSING:
        return f" {MISSING[canonical(word)]}."
    return f" It takes {', '.join(names)}." if names else " It takes none."


def guess(word: object, known: Iterable[str]) -> str:
    """" Did you mean …?" for a misspelt name or a word of the field, and nothing otherwise."""
    found = close(word, known)
    return f" Did you mean {found!r}?" if found is not None else ""


#: arguments that many verbs have, for keywords that were meant to be one of them, and verbs that take them
ARGUMENTS = {
    "sigma_w": ("propagate", "phase", "depth_law"),
    "sigma_b": ("propagate", "phase", "depth_law"),
    "depth": ("propagate", "check", "recommend"),
    "width": ("check", "measure", "recommend"),
    "networks": ("check", "measure"),
    "quantities": ("propagate", "check", "kernel"),
    "input_norm": ("propagate", "phase", "depth_law"),
    "correlation": ("propagate", "check"),
    "seed": ("check", "measure"),
    "tokens": ("propagate", "sample", "check", "measure"),
}


def no_parameter(name: str, known: Iterable[str], of: str = "theory") -> MeanFieldError:
    """The refusal of a keyword that is no parameter of a theory or network, to be raised; known: those that it has."""
    names = sorted(known)
    said = f"{name} is not a parameter of this {of}; it has {', '.join(names) or 'none beyond sigma_w, sigma_b'}."
    if name in ARGUMENTS:
        verbs = ", ".join(ARGUMENTS[name])
        return MeanFieldError(f"{said} {name} is an argument of {verbs}, where the network and what is asked need it.")
    there_is = MISSING.get(canonical(name))
    return MeanFieldError(f"{said} {there_is}." if there_is else f"{said}{guess(name, (*names, *ARGUMENTS))}")


def missing(name: str, given: Iterable[str] = ()) -> MeanFieldError:
    """The refusal of a call that lacks the value of `name`, to be raised; given: the keywords that it has."""
    other = next((one for one in given if one != name and name in WORDS.get(canonical(one), "").split()), None)
    square = next((one for one in given if canonical(one) in MISSING and name in MISSING[canonical(one)]), None)
    said = f"{name} has no value; give it as a keyword ({name}=...)."
    if square is not None:
        return MeanFieldError(f"{said} {square} is no keyword. {MISSING[canonical(square)]}.")
    return MeanFieldError(f"{said} {other} is called {name} here." if other else said)


def unknown(what: str, word: object, known: Iterable[str]) -> MeanFieldError:
    """The refusal of a name that is not among those known, to be raised: what it may have meant, or what there is."""
    names = list(known)
    said = f"Unknown {what} {shown(word)}"
    found = close(word, names) if isinstance(word, str) else None
    if found is not None:
        return MeanFieldError(f"{said}: did you mean {found!r}?")
    if isinstance(word, str) and canonical(word) in MISSING:
        return MeanFieldError(f"{said}. {MISSING[canonical(word)]}; the choices are {', '.join(names)}.")
    return MeanFieldError(f"{said}; the choices are {', '.join(names) or 'none'}.")
