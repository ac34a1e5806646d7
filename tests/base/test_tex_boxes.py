r"""Boxes of formulas by hand from TeX's rules, formulas read and written again, and lines filled piece by piece."""

from __future__ import annotations

import pytest

from meanfield.base.answers.latex import _foreign
from meanfield.base.tex import lines as breaking
from meanfield.base.tex.lines import _Chunk, _filled, _terms, lines, opened
from meanfield.base.tex.read import ITALIC, NARROW, RELATION, UnreadableTex, leaves, read, write
from meanfield.base.tex.width import SIZES, _delimiter, bracket_size, measure, text_width, width

QUAD, SCRIPT, TINY = SIZES["normalsize"]
x, y = (ITALIC[c] * QUAD / 1000 for c in "xy")
digit = 0.5 * QUAD


def test_spaces_between_atoms():
    """A medium space (4/18 em) around a binary sign, a thick one (5/18) around a relation, none around a sign that
    begins, nor in scripts; a thin one (3/18) behind a comma and between letters and operators."""
    sign, equal, comma = measure(read("+")).width, RELATION["="] * QUAD / 1000, NARROW[","] * QUAD / 1000
    assert width("x + y") == pytest.approx(x + y + sign + 2 * 0.222 * QUAD)
    assert width("x = y") == pytest.approx(x + y + equal + 2 * 0.278 * QUAD)
    assert width("+ x") == pytest.approx(sign + x)
    assert width("x = + y") == pytest.approx(x + y + equal + sign + 2 * 0.278 * QUAD)
    assert width("x, y") == pytest.approx(x + y + comma + 0.167 * QUAD)
    small = width("x^{x + y}") - x
    assert small == pytest.approx((x + y + sign) * SCRIPT / QUAD + 0.5)
    log = measure(read(r"\log")).width
    assert width(r"\log x") == pytest.approx(log + x + 0.167 * QUAD)
    assert width(r"x \log x") == pytest.approx(log + 2 * x + 2 * 0.167 * QUAD)


def test_scripts():
    """Both scripts stand above each other, in the next smaller size, the third of all; each adds half a point."""
    assert width("x^2") == pytest.approx(x + 0.5 * SCRIPT + 0.5)
    assert width("x^2_{yy}") == pytest.approx(x + max(0.5 * SCRIPT, 2 * y * SCRIPT / QUAD) + 0.5)
    assert width("x^{2}^{2}") == pytest.approx(x + 2 * (0.5 * SCRIPT + 0.5))
    inner = 0.5 * SCRIPT + 0.5 * TINY + 0.5
    assert width("x^{2^2}") == pytest.approx(x + inner + 0.5)
    assert width("x^{2^{2^2}}") == pytest.approx(x + 0.5 * SCRIPT + 0.5 * TINY + (0.5 * TINY + 0.5) + 0.5 + 0.5)
    up, down = measure(read("x^2")), measure(read("x_2"))
    plain = measure(read("x"))
    assert up.height == pytest.approx(0.41 * QUAD + 0.7 * SCRIPT) and up.depth == plain.depth
    assert down.depth == pytest.approx(max(0.15 * QUAD, 0.25 * QUAD, 0.7 * SCRIPT - 0.34 * QUAD) + 0.2 * SCRIPT)
    assert down.height == plain.height


def test_fractions_roots_and_brackets():
    """A fraction is as wide as its wider part and 2.4 points; its parts are one size smaller in text, not in display;
    the baselines lie 0.68 and 0.69 quads from its own, unless the parts are high."""
    one = measure(read(r"\frac{x}{yy}"))
    assert one.width == pytest.approx(max(x, 2 * y) + 2.4)
    assert (one.height, one.depth) == pytest.approx((1.38 * QUAD, 0.89 * QUAD))
    text = measure(read(r"\frac{x}{y}"), "normalsize", 0)
    assert text.width == pytest.approx(max(x, y) * SCRIPT / QUAD + 2.4)
    assert text.height == pytest.approx(0.31 * QUAD + (0.2 + 0.7) * SCRIPT)
    deep = measure(read(r"\frac{\frac{x}{y}}{x}"))
    part = measure(read(r"\frac{x}{y}"), "normalsize", 0)
    assert deep.height == pytest.approx(max(0.68 * QUAD, 0.39 * QUAD + part.depth) + part.height)
    root, indexed = measure(read(r"\sqrt{x}")), measure(read(r"\sqrt[3]{x}"))
    assert root.width == pytest.approx(x + QUAD) and indexed.width == pytest.approx(x + QUAD + 0.5 * TINY)
    assert root.height == pytest.approx(1.0 * QUAD)
    both = measure(read(r"\left(x\right)"))
    assert both.width == pytest.approx(x + 2 * _delimiter("(", 0.9, QUAD))
    assert both.height == pytest.approx(0.8 * QUAD) and both.depth == pytest.approx(0.3 * QUAD)
    assert _delimiter(".", 0.9, QUAD) == 1.2 and _delimiter("(", 1.01, QUAD) == pytest.approx(0.39 * QUAD)
    assert _delimiter("(", 1.02, QUAD) == pytest.approx(0.47 * QUAD)
    assert _delimiter("[", 1.0, QUAD) == pytest.approx(0.8 * 0.39 * QUAD)
    assert _delimiter("|", 1.0, QUAD) == pytest.approx(0.62 * 0.39 * QUAD)
    sizes = [bracket_size(read(t), "normalsize") for t in ("x", r"\frac{x}{y}", r"\frac{\frac{x}{y}}{\frac{x}{y}}")]
    assert sizes == sorted(sizes, key=["big", "Big", "bigg", "Bigg"].index) and sizes[0] == "big" != sizes[2]


def test_cases_and_text():
    """Columns are as wide as their widest cell, a quad apart, behind a brace of 1.25 quads; a row has 1.44."""
    box = measure(read(r"\begin{cases} x & y \\ xx & 2 \end{cases}"))
    assert box.width == pytest.approx(2 * x + max(y, digit) + QUAD + 1.25 * QUAD)
    assert (box.height, box.depth) == pytest.approx((1.69 * QUAD, 1.19 * QUAD))
    assert text_width("", QUAD) == 0 and text_width("12", 8.0) == 8.0 and text_width(" ", 9.0) == pytest.approx(2.997)


@pytest.mark.parametrize(
    "text",
    [
        "x", "x + y", "- x", r"\frac{x}{y}", r"\sqrt[3]{x}", "x^{2}_{ab}", r"\left( x + 1 \right)", r"\log x",
        r"\begin{cases} x & y \\ 1 & 2 \end{cases}", r"a_{1, 2}", r"\Bigl( x \Bigr)", r"\text{for all}", "23 x^{23}",
        r"\alpha \beta", r"2 \cdot 3",
    ],
)  # fmt: skip
def test_what_is_written_reads_the_same(text):
    nodes = read(text)
    assert read(write(nodes)) == nodes and measure(read(write(nodes))) == measure(nodes)
    assert next(leaves(nodes)).text == nodes[0].text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{x", "} is missing"), ("x}", "} closes nothing"), (r"\left( x", r"\\right is missing"),
        (r"x \right)", "closes"), (r"\frac{x}", "ends too early"), (r"\nomacro", "unknown macro"),
        (r"\begin{array} x \end{array}", "environment"),
        (r"\begin{cases} x \end{array}", "another end"), (r"\text x", "no argument"), (r"\text{x", "} is missing"),
        ("x^", "ends too early"), ("$", "no place in a formula"), (r"\left(", "is missing"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named(text, said):
    with pytest.raises(UnreadableTex, match=said):
        read(text)


def test_terms_begin_at_signs_and_relations():
    """A sign that begins, or follows another one, a relation or a comma, begins no term."""
    found = [write(t) for t in _terms(read("- a + b \\cdot - c = - d, - e"))]
    assert found == ["- a", "+ b \\cdot - c", "= - d, - e"]


def test_lines_fit_and_are_opened_only_where_they_must():
    text = r"\left(x + y\right)^{2} + \left(x - y\right)^{2} + x y"
    whole = width(text)
    assert lines(text, whole) == [text] and lines(text, whole - 0.01) != [text]
    assert lines(text, whole, first=0.01) != [text]
    quad = width(r"\quad")
    widest = max(measure(t).width for t in _terms(read(text)))
    assert not opened(text, widest + quad) and opened(text, widest + quad - 0.01)
    narrow = lines(text, widest + quad + 1)
    assert len(narrow) > 1 and all(width(line) <= widest + quad + 1 for line in narrow)
    assert all(line.startswith(breaking.INDENT) for line in narrow[1:]) and not narrow[0].startswith(breaking.INDENT)
    short = lines(text, widest + quad + 8, first=8.0)
    assert width(short[0]) <= widest + quad


def test_a_line_ends_where_it_is_cheapest_and_as_late_as_it_can():
    """Four pieces of equal width, three to a line: the last break of the same cost is taken, an earlier one of a lower
    bracket where it is cheaper by more than the line loses, none at all where a line may not end."""
    piece = read("+ x")
    each = measure((*read("{}"), *piece)).width
    room, quad = 3.4 * each, 0.0

    def filled(*costs):
        chunks = [_Chunk(piece, cost) for cost in costs]
        return [line.count("x") for line in _filled(chunks, room, 0.0, quad, "normalsize")]

    assert filled(None, 0, 0, 0) == [3, 1]
    assert filled(None, 0, 0, 8) == [2, 2]
    assert filled(None, 0, 8, 8) == [1, 3]
    assert filled(None, 0, None, 0) == [3, 1] and filled(None, 0, None, None) == [1, 3]
    assert filled(None, None, None, None, 0) == [4, 1]


def test_names_beyond_ascii():
    assert [_foreign(n) for n in ("μ", "σ", "ж", "μ_1")] == [r"\mu", r"\sigma", r"\text{ж}", r"\text{μ_1}"]
