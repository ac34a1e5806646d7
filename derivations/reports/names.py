r"""Names of quantities for print: a claim's "point 0 sigma_w^2" as "$\sigma_w^2$ at critical point 1".

A quantity's name is words and formulas in plain text, "c from 0 at sigma_b = 0". What reads as a formula is set in math
mode; the keys by which the engine is asked for critical points, lines and laws are written out.
"""

from __future__ import annotations

import re

from sympy.core.alphabets import greeks

from meanfield.base.tex.prose import escape

_FIELDS = {
    "kind": "kind", "side": "side", "message": "message", "rate": "rate of the exponential", "lead": "leading term",
    "rate_power": "power of l in the exponent", "exponent": "exponent of l",
}  # fmt: skip
_PHRASES = (  # the engine's keys, and what stands for them
    (re.compile(r"point (\d) (.*)"), lambda m: f"{_field(m[2])} at critical point {int(m[1]) + 1}"),
    (re.compile(r"line (.*)"), lambda m: f"{_field(m[1])} of the critical line"),
    (re.compile(r"law (\S+) (.*)"), lambda m: f"{m[1]} at large depth: {_field(m[2])}"),
    (re.compile(r"points"), lambda m: "number of critical points"),
    (re.compile(r"(g/f|g|f|h) (-?\d(?:/\d)?)"), lambda m: f"{m[1]}, coefficient of gamma^({m[2]})"),
    (re.compile(r"(.*) normalized"), lambda m: f"{m[1]} , normalized"),
    (re.compile(r"bar (G_0|Var phi)"), lambda m: f"mean of {m[1]}"),
    (re.compile(r"exact J step"), lambda m: "J^{l+1}/J^{l} by the exact law"),
)
_WORDS = set(
    """a at of on the is or and by in it row sum power kind side layer leading term limit constant factor exponent
    density number critical point line large from less print growth grows gap shrinks falls sign mean""".split()  # noqa: SIM905
)
_GREEK = frozenset(greeks) | {"varphi", "Theta", "Gamma"}
_FUNCTIONS = {"log", "exp", "sqrt", "max", "min", "lim", "sin", "cos", "tanh", "erf", "asin"}
_OPERATORS = {"Var": r"\operatorname{Var}", "Cov": r"\operatorname{Cov}", "grad": r"\nabla", "Laplace": r"\Delta"}
_OPERATORS |= {"E": r"\operatorname{E}", "Delta": r"\Delta", "erf": r"\operatorname{erf}", "par": r"\parallel"}
_OPERATORS |= {"perp": r"\perp", "phi": r"\varphi", "WWWW": "WWWW"}
_SIGNS = {"+", "-", "=", "<", ">", "≤", "≥", "...", "·"}
_UNICODE = {"ε": r"\varepsilon ", "β": r"\beta ", "√": r"\surd ", "½": r"{\tfrac12}"}
_UNICODE |= {"⁵": "^5", "⁶": "^6", "...": r"\dots"}
_TOKEN = re.compile(r"(?:bar)?<(?:[^<>]|<[^<>]*>)*>\S*|\|[^|]*\|\S*|(?:[^\s()]|\([^()]*(?:\([^()]*\)[^()]*)*\))+")


def named(quantity: str) -> str:
    r"""The name as LaTeX text, formulas between dollar signs.

    >>> print(named("point 0 sigma_w^2"), "|", named("c from 0 at sigma_b = 0"))
    $\sigma_{w}^{2}$ at critical point 1 | $c$ from $0$ at $\sigma_{b} = 0$
    """
    for pattern, phrase in _PHRASES:
        found = pattern.fullmatch(quantity)
        if found is not None:
            quantity = phrase(found)
            break
    out: list[str] = []
    run: list[str] = []
    for token in _TOKEN.findall(quantity):  # what stands in brackets or between bars is one
        if _is_formula(token) or (run and token in _SIGNS):
            run.append(token)
            continue
        out += [*_formula(run), escape(token)]
        run = []
    out += _formula(run)
    return " ".join(out).replace(" ,", ",")


def _field(key: str) -> str:
    return _FIELDS.get(key, key)


def _is_formula(token: str) -> bool:
    core = token.rstrip(",:")
    if core in _WORDS:
        return False
    if core in _GREEK or core in _FUNCTIONS or core in _OPERATORS or core.isdigit() or len(core) == 1:
        return True
    return len(core) > 1 and bool(re.search(r"[_^<>|=*/\[(']|^[A-Z]\d|^[a-z]{2}[*]|[ε√½]", core))


def _formula(tokens: list[str]) -> list[str]:
    """The tokens as one formula between dollar signs; nothing where there are none."""
    text, tail = " ".join(tokens), ""
    if text.endswith((",", ":")):
        text, tail = text[:-1], text[-1]
    return [f"${tex(text)}${tail}"] if text else []


def tex(text: str) -> str:
    """A formula in plain text as LaTeX."""
    text = re.sub(r"bar<(.*)>", r"\\overline{\\langle \1 \\rangle}", text)
    text = re.sub(r"sigma_(mu|y)2", r"{sigma_\1^2}", _angles(text))
    text = re.sub(r"\bl(\d)\b", r"lambda_\1", text)
    text = re.sub(r"sqrt\(((?:[^()]|\([^()]*\))*)\)", r"\\sqrt{\1}", text)
    text = re.sub(r"(\w+)~", r"\\tilde{\1}", text)
    text = re.sub(r"\*(?=$|[\s,)}'/])", r"^{\\ast}", text).replace("*", r"\,")
    text = re.sub(r"\^\(([^()]*)\)", r"^{\1}", text)
    text = re.sub(r"\^(-?[A-Za-z0-9]+)", r"^{\1}", text)
    text = re.sub(r"\b([A-Z])(\d)", r"\1_\2", text)
    text = re.sub(r"_([A-Za-z0-9]+|[+-])", r"_{\1}", text)
    for sign, written in _UNICODE.items():
        text = text.replace(sign, written)
    text = re.sub(r"\\[a-z]+|[A-Za-z]+[0-9]?", lambda m: _letter(m[0]), text)
    return text.replace(" }", "}").replace("  ", " ").strip()


def _angles(text: str) -> str:
    """Brackets of averages: a < that a letter or bracket follows at once, and the > that closes it."""
    out, depth = "", 0
    for i, c in enumerate(text):
        after = text[i + 1 : i + 2]
        if c == "<" and after not in ("", " "):
            out, depth = out + r"\langle ", depth + 1
        elif c == ">" and depth:
            out, depth = out + r" \rangle ", depth - 1
        else:
            out += {"<": "<", ">": ">"}.get(c, c)
    return out


def _letter(word: str) -> str:
    """A word of a formula; commands stay what they are."""
    if word.startswith("\\"):
        return word
    if word in _OPERATORS:
        return _OPERATORS[word] + " "
    if word in _GREEK:
        return f"\\{word} "
    if word in _FUNCTIONS:
        return f"\\{word} " if word not in ("erf", "asin") else rf"\operatorname{{{word}}}"
    if word == "l":
        return r"\ell "
    return word if len(word) <= 2 else rf"\text{{{word}}}"
