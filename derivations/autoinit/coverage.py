"""What became of every numbered equation, figure and conjecture of the paper, which has no tables."""

from __future__ import annotations

from derivations.coverage import DEFINITION, Item, equation, figure, statement, step_of, training

PAPER = "autoinit"
BLOCK = "a definition: a layer of ResMLP as it is built"
OF_BLOCK = step_of("(65)")
LARGE_BATCH = "the law of large numbers over the batch, which (23) rests on"

MAIN: tuple[Item, ...] = (
    equation("(1)", "a network of blocks", outside=DEFINITION),
    equation("(2)", "flattened outputs", outside=DEFINITION),
    equation("(3)", "averaged partial Jacobian J", outside=DEFINITION),
    equation("(4)", "critical initialization", outside=DEFINITION),
    equation("(5)", "size of gradients by J", outside="an order of magnitude; what it rests on is (6)"),
    equation("(6)", "J as a product of blocks"),
    equation("(7)", "estimator of J by random vectors"),
    equation("(8)", "perceptron", outside=DEFINITION),
    equation("(9)", "covariance K", outside=DEFINITION),
    equation("(10)", "K of the next layer"),
    equation("(11)", "perceptron with gains", outside=DEFINITION),
    equation("(12)", "loss JLL", outside=DEFINITION),
    equation("(13)", "step of the descent", outside=DEFINITION),
    equation("(14)", "the term of the layer itself"),
    equation("(15)", "the terms of later layers, by a_W"),
    equation("(16)", "the terms of later layers, by a_b"),
    equation("(17)", "step of √J of ReLU"),
    equation("(18)", "rates at which |√J - 1| falls", by=("(20)",)),
    equation("(19)", "rate of one step"),
    equation("(20)", "η_0 by σ_w"),
    equation("(21)", "residual network with BatchNorm", outside=DEFINITION),
    equation("(22)", "BatchNorm", outside=DEFINITION),
    equation("(23)", "J with BatchNorm of a large batch"),
    equation("(24)", "loss JKL", outside=DEFINITION),
    equation(
        "(25)",
        "J of two blocks as a product to order 1/N",
        open="to leading order it is (6); no claim decides the correction of order 1/N, which a later layer's χ_Δ has",
    ),
    equation("(26)", "χ_Δ"),
    equation("(27)", "the terms of later layers, derived"),
    equation("(28)", "χ_Δ of ReLU"),
    equation("(29)", "residual network with BatchNorm", outside=DEFINITION),
    equation("(30)", "BatchNorm by a projection", outside=DEFINITION),
    equation("(31)", "its derivative", outside=step_of("(32)")),
    equation("(32)", "J with BatchNorm of any batch"),
    equation("(33)", "its leading part", outside=step_of("(23)")),
    equation("(34)", "variance over the batch, written out", outside=step_of("(35)")),
    equation("(35)", "its limit", outside=LARGE_BATCH),
    equation("(36)", "normalized inputs are uncorrelated"),
    equation("(37)", "K and K_ab of ReLU"),
    equation("(38)", "J at μ = 0"),
    equation("(39)", "J at μ = 1"),
    equation("(40)", "step of the descent of JSL", outside=DEFINITION),
    equation("(41)", "step of √J of ReLU"),
    equation("(42)", "rates at which |√J - 1| falls", by=("(44)",)),
    equation("(43)", "rate of one step"),
    equation("(44)", "η_0 by σ_w"),
    equation("(45)", "loss JKL without the ends", outside=DEFINITION),
    equation("(46)", "its kernel term, by a_W"),
    equation("(47)", "its terms of later layers", outside="a derivative written out, in which no network stands"),
    equation("(48)", "JKL of ReLU"),
)

RESMLP: tuple[Item, ...] = (
    *(equation(f"({n})", "a layer of ResMLP", outside=BLOCK) for n in range(49, 57)),
    equation("(57)", "K", outside=DEFINITION),
    equation("(58)", "K behind the first affine map", outside=OF_BLOCK),
    equation("(59)", "K behind the patches", outside=OF_BLOCK),
    equation("(60)", "K behind the first skip", outside=OF_BLOCK),
    equation("(61)", "K behind the second affine map", outside=OF_BLOCK),
    equation("(62)", "K behind the first channel layer", outside=OF_BLOCK),
    equation("(63)", "K behind GELU", outside=OF_BLOCK),
    equation("(64)", "K behind the second channel layer", outside=OF_BLOCK),
    equation("(65)", "K of the next block"),
    equation("(66)", "⟨φ²⟩ of GELU"),
    equation("(67)", "K of the next block of ReLU"),
    equation("(68)", "derivative of a block", outside=step_of("(69)")),
    equation("(69)", "J of a block"),
    equation("(70)", "⟨φ′²⟩ of GELU"),
    equation("(71)", "where it is taken"),
    equation("(72)", "J of a block of ReLU"),
)

OTHERS: tuple[Item, ...] = (
    statement("Conjecture 3.1", "J with BatchNorm of a large batch"),
    statement("Conjecture B.1", "limit of the variance over the batch", outside=LARGE_BATCH),
    statement("Conjecture B.2", "normalized inputs are uncorrelated", by=("(36)",)),
    figure("Figure 1", "J after one step, and rates that train, JLL", figure="figure1"),
    figure("Figure 2", "J with BatchNorm over (σ_w, σ_b) and the batch", figure="figure2"),
    figure("Figure 3", "J and K of ResMLP", part="J, K", figure="figure3"),
    figure("Figure 3", "accuracy of ResMLP", part="accuracy", outside=training(PAPER, "3")),
    figure("Figure 4", "J, K and accuracy of VGG19 with BatchNorm", outside=training(PAPER, "4")),
    figure("Figure 5", "J after one step, and rates that train, JSL", figure="figure5"),
)

ITEMS: tuple[Item, ...] = MAIN + RESMLP + OTHERS
