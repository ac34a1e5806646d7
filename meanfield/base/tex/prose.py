r"""Sentences that hold formulas in plain characters (chi_J, K^(-1/2), σ_b² ≤ 0) as LaTeX with those in math mode."""

from __future__ import annotations

import re
import unicodedata

from meanfield.base.tex.read import read
from meanfield.base.tex.width import SIZES, text_width, width

_PLAIN_LETTERS = {
    "σ": "sigma", "χ": "chi", "μ": "mu", "φ": "phi", "ξ": "xi", "ζ": "zeta", "δ": "delta", "Θ": "Theta", "Γ": "Gamma",
    "Δ": "Delta", "π": "pi", "α": "alpha", "β": "beta", "ℓ": "l", "′": "'", "″": "''", "∞": "oo", "Φ": "Phi",
    "→": "->", "≤": "<=", "≥": ">=", "−": "-", "γ": "gamma", "λ": "lambda", "η": "eta", "ε": "epsilon", "κ": "kappa",
    "τ": "tau", "ρ": "rho", "ω": "omega", "θ": "theta", "ψ": "psi", "ν": "nu",
}  # fmt: skip
_NAMES = {
    "K_aa": "K_{aa}", "K_bb": "K_{bb}", "K_ab": "K_{ab}", "oo": r"\infty", "Q0": "Q_0", "c0": "c_0", "N0": "N_0",
    "J0": "J_0", "D0": "D_0", "l": r"\ell", "phi": r"\varphi", "chi_Delta": r"\chi_\Delta",
}  # fmt: skip
_GREEK = frozenset(
    re.findall(
        r"\w+",
        "alpha beta gamma delta epsilon zeta eta theta kappa lambda mu nu xi pi rho sigma tau phi chi psi omega "
        "Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega",
    )
)
_FUNCTIONS = frozenset(
    ["log", "exp", "sin", "cos", "tan", "sinh", "cosh", "tanh", "arcsin", "arccos", "arctan", "max", "min"]
)
_ALONE = frozenset(["K", "J", "l", "z", "K*", "K'", "phi'", "oo"])
_COMMANDS = {"->": r"\to ", ">=": r"\ge ", "<=": r"\le ", "~": r"\sim ", "∥": r"\parallel ", "⊥": r"\perp "}
_SIGNS = frozenset(["=", "+", "-", "<", ">", "<=", ">=", "~", "->"])
_TILDE = "\u0303"  # stands behind its letter
_WORD = rf"[A-Za-z][A-Za-z0-9]*{_TILDE}?(?:_[A-Za-z0-9]+)*"
_RAISED = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+(?:/[⁰¹²³⁴⁵⁶⁷⁸⁹]+)?")
_LOWERED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_SUBSCRIPTED = re.compile(r"(sigma_[wb]|chi_(J|K|Delta|c)|zeta_K|K_(aa|bb|ab)|c_n|d_1|m_n|xi_[Kc])$")
_ESCAPES = {"\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "~": r"$\sim$", "^": r"\^{}", "*": r"$\ast$"}
_ESCAPES |= {c: rf"\{c}" for c in "_%&#$"} | {c: f"${c}$" for c in "<>|"} | {"–": "--", "—": "---", "…": r"\dots{}"}
_ESCAPES |= {"⟨": r"$\langle$", "⟩": r"$\rangle$", "∂": r"$\partial$", "√": r"$\surd$", "·": r"$\cdot$", "±": r"$\pm$"}
_ESCAPES |= {"Σ": r"$\Sigma$", "≠": r"$\neq$", "‖": r"$\|$", "∫": r"$\int$", "½": r"$\frac12$", "¼": r"$\frac14$"}
_ESCAPES |= {"∇": r"$\nabla$", "∥": r"$\parallel$", "⊥": r"$\perp$", "↔": r"$\leftrightarrow$"}


def prose(text: str) -> str:
    r"""A sentence as LaTeX: what reads as a formula in math mode, everything else with its special characters escaped.

    >>> print(prose("chi_J - 1 falls as K^(-1/2), and σ_b² ≤ 0 is_not (mu = 1)"))
    $\chi_J - 1$ falls as $K^{-1/2}$, and $\sigma_b^2 \le 0$ is\_not ($\mu = 1$)
    """
    text = _RAISED.sub(lambda m: "^" + (_lowered(m) if len(m[0]) == 1 else f"({_lowered(m)})"), _accented(text))
    for c, name in (_PLAIN_LETTERS | {"⟨": "<", "⟩": ">_{}"}).items():
        text = text.replace(c, name)
    text = re.sub(rf"√({_WORD}|\d+)(?!\()", r"sqrt(\1)", text).replace("√(", "sqrt(")
    text = re.sub(r"(?<=[\w)])·(?=[\w(])|(?<=\d)(?=sqrt\()", "*", text)
    out: list[str] = []
    run: list[str] = []

    def close(tail: str = "") -> None:
        back: list[str] = []  # signs that end no formula, or stand alone, belong to the sentence
        while run and run[-1] in _SIGNS:
            back.insert(0, run.pop())
        if run:
            out.append(f"${formula(' '.join(run))}$" + ("" if back else tail))
        out.extend(r"$\to$" if w == "->" else escape(w) for w in back)
        if back:
            out[-1] += tail
        run.clear()

    words = [_punctuated(w) for w in _words(text)]
    for (lead, core, tail), (opening, after, _) in zip(words, [*words[1:], ("", "", "")]):
        leads_on = not tail and not opening and after in _SIGNS
        known = _mathematical(core) or (leads_on and _known(core)) or (core in _FUNCTIONS and _mathematical(after))
        # two operands in a row are a product only where the formula goes on, or ends, with the second
        row = bool(run) and (run[-1] in _SIGNS or core in _SIGNS or run[-1] in _FUNCTIONS or leads_on or bool(tail))
        if lead or not (row and (known or _fits_in(core))):
            close()
        if known or (run and _fits_in(core)):
            if lead:
                out.append(lead)
            run.append(core)
            if tail:
                close(tail)
        else:
            out.append(escape(lead + core + tail))
    close()
    text = ""
    for part in out:
        text += part if not text or text.endswith("(") else " " + part
    return text


def escape(text: str) -> str:
    """Text with LaTeX's special characters escaped, and with the letters and signs that LaTeX's text lacks in math."""
    letters = {c: f"${formula(name)}$" for c, name in _PLAIN_LETTERS.items()}
    out = ""
    for c in re.findall(rf"{_RAISED.pattern}|.{_TILDE}?", _accented(text), re.DOTALL):
        if c[-1] == _TILDE:
            out += f"${formula(_PLAIN_LETTERS.get(c[0], c[0]) + _TILDE)}$"
        elif power := _RAISED.fullmatch(c):
            out += f"${{}}^{{{_lowered(power)}}}$"
        else:
            out += _ESCAPES.get(c) or letters.get(c) or c
    return out.replace("$$", "")


def _lowered(power: re.Match[str]) -> str:
    return power[0].translate(_LOWERED)


def _accented(text: str) -> str:
    """Text in composed characters, but for letters with a tilde that are symbols: those stand before their tilde."""
    text = unicodedata.normalize("NFC", text)
    apart = {c: unicodedata.normalize("NFD", c) for c in set(text)}
    alone = r"(?<![^\W\d_])[^\W\d_](?![^\W\d_])"
    return re.sub(alone, lambda m: apart[m[0]] if apart[m[0]][1:] == _TILDE else m[0], text)


def wrapped(text: str, limit: float, size: str = "normalsize") -> list[str]:
    """LaTeX text (what `prose` returns) as lines of at most `limit` points, broken at its spaces."""
    out, line, used = [], "", 0.0
    for word in re.findall(r"(?:\$[^$]*\$|[^\s$])+", text):
        wide = _text_box(word, size)
        if line and used + wide + 4.0 > limit:
            out.append(line)
            line, used = "", 0.0
        line, used = (f"{line} {word}", used + wide + 4.0) if line else (word, wide)
    return [*out, line] if line else out


def _text_box(word: str, size: str) -> float:
    """Width of a word with math in it."""
    total = 0.0
    for k, part in enumerate(word.split("$")):
        if k % 2:
            total += width(part, size) if read(part) else 0.0
        else:
            total += text_width(re.sub(r"\\[a-z]+|[\\{}]", "", part), SIZES[size][0])
    return total


def _words(text: str) -> list[str]:
    """Words at white space; the arguments of a function stay together."""
    out: list[str] = []
    for w in text.split():
        if out and out[-1].count("(") > out[-1].count(")") and re.search(r"[\w*/^]\(", out[-1]):
            out[-1] += " " + w
        else:
            out.append(w)
    return out


def _punctuated(word: str) -> tuple[str, str, str]:
    """Opening bracket, core, closing punctuation of a word."""
    whole = word.count("(") > word.count(")") or word.endswith(("),", ")", ");"))
    lead = "(" if word.startswith("(") and whole else ""
    core, tail = word[len(lead) :], ""
    while core and (core[-1] in ",;:." or (core[-1] == ")" and core.count(")") > core.count("("))):
        core, tail = core[:-1], core[-1] + tail
    return lead, core, tail


def _mathematical(core: str) -> bool:
    """Whether a word is (a piece of) a formula."""
    if core in _SIGNS or core in _ALONE or re.fullmatch(r"-?\d+(\.\d+)?e[-+]?\d+", core):
        return True
    if _greek(core):
        return True
    if _SUBSCRIPTED.match(core) or (_TILDE in core and _known(core)):
        return True
    bare = re.sub(r"\b" + _WORD + r"(?=\()", "1", core)  # functions
    words = re.findall(_WORD, bare)
    readable = all(_known(w) for w in words) and not re.search(r"[^\w\s()*/^+\-=<>~',.{}" + _TILDE + "]", core)
    return readable and bool(re.search(r"[*^=<>~+]|\w/[A-Za-z(]|\w-\w*\(|sqrt\(", core)) and core.strip("*<>+~.") != ""


def _greek(word: str) -> bool:
    """A Greek letter, with a subscript of one letter or of two indices."""
    head, _, below = word.partition("_")
    return head in _GREEK and bool(word == head or re.fullmatch(r"\w|[∥⊥]|aa|ab|bb", below) or below in _GREEK)


def _known(word: str) -> bool:
    if _TILDE in word or _greek(word):  # only a symbol has a tilde
        return True
    return len(word) == 1 or word in _NAMES or word in _FUNCTIONS or bool(_SUBSCRIPTED.match(word))


def _fits_in(core: str) -> bool:
    """A number, constant or function name that belongs to the formula before it."""
    return bool(re.fullmatch(r"-?[\d.]+|\d+/\d+|[pC]|-?" + _WORD + r"\(.*\)|\(.*\)", core)) or core in _FUNCTIONS


def formula(text: str) -> str:
    r"""LaTeX of a formula in plain characters: sqrt(2)*l^(1/2) → \sqrt{2}\,\ell^{1/2}."""
    text = re.sub(r"\*\*(\d+)", r"^{\1}", text).replace("**", "^")
    # whole numbers of many digits are rounded, as `tex` does
    text = re.sub(r"(?<![\w.])\d{14,}(?![\w.])", lambda m: f"({int(m[0]):.8e})", text)
    text = re.sub(r"\.?0+e\+", "e", text)
    text = re.sub(r"(?<![\w.])1e([-+]?\d+)", lambda m: f"10^{{{int(m[1])}}}", text)
    text = re.sub(r"(?<=[\d.])e([-+]?\d+)", lambda m: rf" \cdot 10^{{{int(m[1])}}}", text)
    text = re.sub(r"(?<=\w)\*(?![\w(])", r"^\\ast ", text)
    text = _braced(_braced(text, "sqrt(", r"\sqrt{"), "^(", "^{")
    text = re.sub(r"\^(-?\w+(?:/\w+)?)", r"^{\1}", text)
    text = re.sub(r"\^{(\w)}", r"^\1", text)
    text = re.sub(r"<([^<>]*)>_\{", r"\\langle \1\\rangle_{", text)

    def name(m: re.Match[str]) -> str:
        word, rest = m[0], text[m.end() : m.end() + 1]
        if word in _NAMES:
            return _NAMES[word]
        head, *tail = word.split("_")
        tilde, head = _TILDE in head, head.removesuffix(_TILDE)
        if tilde and head in _NAMES:
            head = _NAMES[head]
        elif head in _GREEK or head in _FUNCTIONS:
            head = rf"\{head}"
        elif len(head) > 1 and rest == "(":
            return rf"\operatorname{{{word.replace('_', '')}}}"
        elif len(head) > 1:
            head = rf"\mathrm{{{head}}}"
        head = rf"\tilde{{{head}}}" if tilde else head
        below = [_NAMES.get(t, rf"\{t}" if t in _GREEK else t) for t in tail]
        return head + "".join("_" + (t if len(t) == 1 else f"{{{t}}}") for t in below)

    text = re.sub(r"(?<![\\A-Za-z_])" + _WORD, name, text)
    text = text.replace("_{}", "")
    for a, b in _COMMANDS.items():
        text = text.replace(a, b)
    text = re.sub(r"(?<=\d)\*(?=\d)", r" \\cdot ", text).replace("*", r"\,\allowbreak " if len(text) > 60 else r"\,")
    return re.sub(r"  +", " ", text).strip()


def _braced(text: str, opening: str, put: str) -> str:
    """`opening` … ) → `put` … }, brackets matched."""
    i = text.find(opening)
    while i >= 0:
        depth, j = 1, i + len(opening)
        while j < len(text) and depth:
            depth += (text[j] == "(") - (text[j] == ")")
            j += 1
        text = f"{text[:i]}{put}{text[i + len(opening) : j - 1]}}}{text[j:]}"
        i = text.find(opening, i + len(put))
    return text
