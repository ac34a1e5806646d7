"""What became of every table, figure, theorem and lemma of the paper, which has no numbered equations.

The cases of its theorems on large depth are items of their own.
"""

from __future__ import annotations

from derivations.coverage import Item, figure, statement, table, training

PAPER = "variance_variation"
FORWARD, BACKWARD = ("Thm C.2",), ("Thm C.3",)
#: the cases of Theorems C.9 and C.11 in their order, and the results that are claims on them
OF_RELU = (
    ("V_r > 1, U_r < 1", "R41", "R48"),
    ("V_r > 1, U_r = 1, β_w ≤ β_b", "R42a", "R49a"),
    ("V_r > 1, U_r = 1, β_w > β_b", "R42b", "R49b"),
    ("V_r > 1, U_r > 1", "R43", "R50"),
    ("V_r = 1, W_r ≠ 1 - U_r", "R44", "R51"),
    ("V_r = 1, W_r = 1 - U_r, β_b ≥ β_w - W_r", "R45a", "R52a"),
    ("V_r = 1, W_r = 1 - U_r, β_b < β_w - W_r", "R45b", "R52b"),
    ("V_r < 1", "R46", "R53"),
)

RECURSIONS: tuple[Item, ...] = (
    statement("Theorem C.2", "p, q, γ and λ of the next layer"),
    statement("Theorem C.3", "gradients of the layer before"),
)

OF_TANH: tuple[Item, ...] = (
    statement("Theorem C.5", "p and q", part="case 1", by=("Thm C.5 (1)",)),
    statement("Theorem C.5", "p and q", part="case 2", by=("Thm C.5 (2)",)),
    statement("Theorem C.5", "it does not occur", part="case 3", by=("Thm C.5 (3)",)),
    statement("Theorem C.6", "log χ", part="U_t < 1, W_t > 0", by=("Thm C.6: log chi, W_t > 0",)),
    statement("Theorem C.6", "log χ", part="U_t < 1, W_t = 0", by=("Thm C.6: log chi, W_t = 0",)),
    statement("Theorem C.6", "log χ", part="U_t < 1, W_t < 0", by=("Thm C.6: log chi, W_t < 0",)),
    statement("Theorem C.6", "it does not occur", part="U_t = 1, V_t < 1", by=("Thm C.6: U_t = 1, V_t < 1 occurs",)),
    statement("Theorem C.6", "log χ", part="U_t = 1, V_t = 1", by=("Thm C.6: log chi, U_t = V_t = 1",)),
    statement("Theorem C.6", "log χ", part="U_t = 1, V_t > 1", by=("Thm C.6: log chi, U_t = 1 < V_t",)),
    statement("Theorem C.7", "e*", part="β_a > β_v", by=("Thm C.7, β_a > β_v",)),
    statement("Theorem C.7", "e*", part="β_a = β_v", by=("Thm C.7, β_a = β_v",)),
    statement("Theorem C.7", "e*", part="β_a < β_v", by=("Thm C.7, β_a < β_v",)),
)

PHASES: tuple[Item, ...] = (
    *(statement("Theorem C.9", "p and q", part=case, by=(f"{p}, Thm C.9",)) for case, p, _ in OF_RELU),
    statement("Theorem C.10", "e tends to 1", part="case 1", by=("Thm C.10 (1)",)),
    statement("Theorem C.10", "e* below 1, and how fast", part="case 2", by=("Thm C.10 (2)",)),
    *(statement("Theorem C.11", "gradients", part=case, by=(f"{chi}, Thm C.11",)) for case, _, chi in OF_RELU),
)

LEMMAS: tuple[Item, ...] = (
    statement("Lemma D.1", "c where p falls, grows or settles"),
    statement("Lemma D.2", "⟨φ²⟩ of φ that falls, at large q"),
    statement("Lemma D.3", "that of powers of sech"),
    statement("Lemma D.4", "⟨tanh′²⟩ at large q"),
    statement("Lemma D.5", "1 - ⟨tanh²⟩ at large q"),
    statement("Lemma D.6", "sums of powers"),
    statement("Lemma D.7", "products of 1 + δ/l^β"),
    statement("Lemma D.8", "the same with a source"),
)

SHOWN: tuple[Item, ...] = (
    table("Table A.1", "symbols; its s is not that of Definition 4.2"),
    table("Table A.2", "the recursions", by=FORWARD + BACKWARD),
    figure("Figure 1", "widths that fall, tanh", figure="figure1"),
    figure("Figure 2", "zig and zag of ReLU", part="contours", figure="figure2"),
    figure("Figure 2", "accuracies", part="heatmaps", outside=training(PAPER, "2")),
    figure("Figure 3", "sweeps of tanh", part="contours", figure="figure3"),
    figure("Figure 3", "accuracies", part="heatmaps", outside=training(PAPER, "3")),
    figure("Figure A.1", "quantities of the zig", figure="figureA1"),
    figure("Figure A.2", "quantities of the zag", figure="figureA2"),
    figure("Figure B.3", "χ of ReLU", figure="figureB3"),
    figure("Figure B.4", "p of ReLU", figure="figureB4"),
)

ITEMS: tuple[Item, ...] = RECURSIONS + OF_TANH + PHASES + LEMMAS + SHOWN
