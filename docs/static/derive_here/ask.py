"""What the page "Derive it here" asks the engine: a formula and a question in, text and LaTeX out.

What is typed is read as numbers and formulas by the package, and never run.
"""

import json
import os

os.environ.setdefault("MEANFIELD_SECONDS", "60")  # then a sentence says so; the button stops it sooner

import meanfield as mf

ARCHITECTURES = {
    "plain": {},
    "skip": {"residual": True},
    "norm": {"norm": "pre"},
    "skip and norm": {"residual": True, "norm": "pre"},
}
POINT = ("sigma_w", "sigma_b")
#: question → (verb, arguments of its own, what it takes from the form)
QUESTIONS = {
    "recursion": ("recursion", ("K", "J", "Theta"), ()),
    "closed forms": ("recursion", ("K", "J", "Theta"), ()),
    "two inputs": ("recursion", ("K", "K_ab"), ()),
    "critical points": ("critical_points", (), ()),
    "critical line": ("critical_line", (), ()),
    "phase": ("phase", (), POINT),
    "fixed points": ("fixed_points", (), POINT),
    "law of K": ("depth_law", ("K",), POINT),
    "law of J": ("depth_law", ("J",), POINT),
    "expansions": ("expansions", (), ()),
    "table": ("table", (), ()),
}


def written(question, formula, architecture, values):
    """The call as one types it."""
    verb, own, _ = QUESTIONS[question]
    said = [repr(formula), *(f"{k}={v!r}" for k, v in ARCHITECTURES[architecture].items())]
    given = [*map(repr, own), *(f"{k}={v!r}" for k, v in values.items())]
    call = f"mf.derive({', '.join(said)}).{verb}({', '.join(given)})"
    return f"{call}.doit()" if question == "closed forms" else call


def answered(question, formula, architecture, values):
    """The answer to a question."""
    verb, own, _ = QUESTIONS[question]
    found = getattr(mf.derive(formula, **ARCHITECTURES[architecture]), verb)(*own, **values)
    return found.doit() if question == "closed forms" else found


def shown(found):
    """(text, LaTeX, whether that is for math mode) of an answer."""
    if not isinstance(found, dict):
        return str(found), found.latex(), not isinstance(found, mf.presentation.Table)
    text, rows = [], []  # expansions, by what is averaged and where K goes
    for (name, end), law in found.items():
        text.append(f"<{name}> as K -> {end}: {law}")
        power, to = name.replace("phi", r"\phi"), end.replace("oo", r"\infty")
        rows.append(rf"\left\langle {power} \right\rangle_{{K \to {to}}} &= {law.latex()}")
    return "\n".join(text), "\\begin{aligned}\n" + " \\\\\n".join(rows) + "\n\\end{aligned}", True


def ask(request):
    """The answer to a request, both as JSON: question, formula, architecture, sigma_w and sigma_b; call, text, latex,
    math, or the sentence of a refusal as `refused`."""
    given = json.loads(request)
    question, architecture, formula = given["question"], given["architecture"], given["formula"].strip()
    values = {name: given[name].strip() for name in QUESTIONS[question][2]}
    answer = {"call": written(question, formula, architecture, values)}
    try:
        text, latex, math = shown(answered(question, formula, architecture, values))
        answer |= {"text": text, "latex": latex, "math": math}
    except mf.MeanFieldError as error:
        answer["refused"] = str(error)
    except Exception as error:  # of the library and not of the formula: the page says so
        answer["failed"] = f"{type(error).__name__}: {error}"
    return json.dumps(answer)
