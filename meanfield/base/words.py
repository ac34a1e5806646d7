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
    **dict.fromkeys(("glu", "geglu", "swiglu", "gated"), "swiglu"),
    **dict.fromkeys(("layernorm", "ln", "layernormalization", "norm"), "pre act"),
    **dict.fromkeys(("nonorm", "null", "false"), "none"),
    # arguments
    **dict.fromkeys(("weightstd", "wstd", "sw", "sigma", "sigmaweight", "weightscale"), "sigma_w"),
    **dict.fromkeys(("biasstd", "bstd", "sb", "sigmabias", "biasscale"), "sigma_b"),
    **dict.fromkeys(("layers", "nlayers", "numlayers", "l", "blocks"), "depth"),
    **dict.fromkeys(("n", "hidden", "neurons", "hiddensize", "nhidden", "channels"), "width"),
    **dict.fromkeys(("samples", "nnetworks", "ensemble", "draws", "repeats", "trials"), "networks draws"),
    **dict.fromkeys(("q0", "inputvariance", "inputnorm", "norm0", "xnorm"), "input_norm"),
    **dict.fromkeys(("n0", "nin", "inputsize", "fanin", "indim"), "input_dimension"),
    **dict.fromkeys(("c0", "inputcorrelation", "inputcosine"), "correlation"),
    **dict.fromkeys(("observables", "observable", "what", "of", "quantity", "kind"), "quantities quantity"),
    **dict.fromkeys(("randomseed", "randomstate", "rng", "key"), "seed"),
    **dict.fromkeys(("act", "nonlinearity", "activationfunction", "phi", "fn"), "activation"),
    **dict.fromkeys(("skip", "skipconnection", "shortcut"), "residual"),
    **dict.fromkeys(("skipstrength", "alpha"), "mu"),
    # verbs
    **dict.fromkeys(("criticalpoint", "criticality", "edgeofchaos"), "critical_points"),
    **dict.fromkeys(("fixedpoint",), "fixed_points"),
    **dict.fromkeys(("run", "forward", "iterate", "simulate"), "propagate"),
    **dict.fromkeys(("kernels", "ntkmatrix", "gram", "kernelfn"), "kernel"),
    **dict.fromkeys(("law", "asymptotics", "largedepth", "scaling"), "depth_law"),
    **dict.fromkeys(("phases", "diagram", "phaseplot"), "phase_diagram"),
    **dict.fromkeys(("chij", "chik", "susceptibility"), "susceptibilities"),
    **dict.fromkeys(("map", "maps", "recursions", "recurrence"), "recursion"),
    **dict.fromkeys(("tolatex", "tex"), "latex"),
    **dict.fromkeys(("verify", "validate", "compare", "test"), "check"),
    **dict.fromkeys(("init", "initialize", "initialization", "initializer"), "recommend"),
}

#: words for what is not there, and what to do instead
MISSING: Mapping[str, str] = {
    **dict.fromkeys(
        ("cnn", "conv", "convolution", "convnet", "resnet18", "resnet50", "convolutional"),
        "Convolutions are not described here: a Dense(axis='tokens') mixes positions without sharing weights, and "
        "Pool joins nodes",
    ),
    **dict.fromkeys(
        ("transformer", "attention", "selfattention", "vit", "gpt", "bert"),
        "Attention is not described here: architecture='mlp_mixer' mixes tokens by a Dense, and 'preln' is a "
        "feed-forward sublayer",
    ),
    **dict.fromkeys(("rnn", "lstm", "gru", "recurrent"), "Weights shared between layers are not described here"),
    **dict.fromkeys(("dropout",), "Dropout is not described here"),
    **dict.fromkeys(("rmsnorm", "groupnorm"), "It is no record here: docs/writing_a_layer.md adds it in thirty lines"),
    **dict.fromkeys(
        ("chij", "chik", "chi1", "chiparallel", "susceptibility"),
        "It is a derivative of a map: susceptibilities() has its formula, fixed_points and phase its values",
    ),
    **dict.fromkeys(("batchnorm", "bn", "batch"), "BatchNorm is architecture='batchnorm_mlp'"),
    **dict.fromkeys(("post", "postln", "postnorm"), "A LayerNorm behind the skip is architecture='postln'"),
    **dict.fromkeys(("cw", "sigmaw2", "weightvariance"), "It is sigma_w**2: give its root as sigma_w"),
    **dict.fromkeys(("cb", "sigmab2", "biasvariance"), "It is sigma_b**2: give its root as sigma_b"),
}


def printable(value: object) -> bool:
    """Whether a value has a repr."""
    try:
        return isinstance(repr(value), str)
    except Exception:  # a foreign __repr__, or an integer too long to print
        return False


def shown(value: object) -> str:
    """A value as a sentence repeats it: its repr, cut short, and never a second error."""
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
    found = close(word, names)
    if found is not None:
        return f" Did you mean {found!r}?"
    if canonical(word) in MISSING:
        return f" {MISSING[canonical(word)]}."
    return f" It takes {', '.join(names)}." if names else " It takes none."


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
