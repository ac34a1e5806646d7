"""Mathematics of pages: LaTeX as MathML, written once, so that a page needs no script and no font of its own."""

from __future__ import annotations

import html
from functools import lru_cache
from typing import Any

from meanfield import MeanFieldError

_TEXT = ((r"\textbackslash{}", "\\"), *((f"\\{c}", c) for c in "_%&#{}"))


@lru_cache(maxsize=1)
def require() -> Any:
    """The converter; raises `MeanFieldError` where math-core is not installed."""
    try:
        from math_core import LatexToMathML
    except ImportError:
        raise MeanFieldError(
            "Pages with mathematics are not available: math-core is not installed; try: pip install "
            "'meanfield[reports]'."
        ) from None
    return LatexToMathML(fancy_error=False)


@lru_cache(maxsize=8192)
def formula(tex: str, block: bool = False) -> str:
    """A formula as MathML; block: as one that stands alone.

    Raises: MeanFieldError where math-core is not installed.
    """
    from math_core import LatexError

    converter = require()
    try:
        return converter.convert_with_local_state(tex.replace(r"\allowbreak", ""), displaystyle=block)
    except LatexError:
        return f"<code>{html.escape(tex)}</code>"


def text(words: str) -> str:
    """LaTeX text with formulas between dollar signs as HTML."""
    out = ""
    for k, part in enumerate(words.split("$")):
        if k % 2:
            out += formula(part)
            continue
        for written, meant in _TEXT:
            part = part.replace(written, meant)
        out += html.escape(part)
    return out
