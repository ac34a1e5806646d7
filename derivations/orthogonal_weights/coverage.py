"""What became of every numbered equation and figure of the paper, which has no tables and no numbered statements."""

from __future__ import annotations

from derivations.coverage import DEFINITION, Item, equation, figure, step_of, training

PAPER = "orthogonal_weights"
STRUCTURE = "a definition of the tensors, by the indices of neurons that symmetry leaves"

MOMENTS: tuple[Item, ...] = (
    equation("(2.1)", "the layers", outside=DEFINITION),
    equation("(2.2)", "covariance of the weights"),
    equation("(2.3)", "covariance of the biases", outside=DEFINITION),
    equation("(2.4)", "four Gaussian weights"),
    equation("(2.5)", "four orthogonal weights"),
    equation("(2.6)", "their Weingarten function"),
    equation("(2.7)", "K", outside=DEFINITION),
    equation("(2.8)", "V", outside=STRUCTURE),
    equation("(2.9)", "V normalized"),
    equation("(2.10)", "Gaussian averages", outside=DEFINITION),
    equation("(3.1)", "two neurons of layer 1"),
    equation("(3.2)", "two neurons of any layer"),
    equation("(3.3)", "two neurons of the next layer"),
    equation("(3.4)", "G_2 of the next layer"),
    equation("(3.5)", "G_2 of all layers"),
    equation("(3.6)", "four neurons of layer 1"),
    equation("(3.7)", "G_4", outside=STRUCTURE),
    equation("(3.8)", "four neurons of the next layer", by=("(3.9)",)),
    equation("(3.9)", "G_4 of the next layer"),
    equation("(3.10)", "G_4 of layer 0"),
    equation("(3.11)", "V of orthogonal weights"),
    equation("(3.12)", "V of Gaussian weights"),
    equation("(3.13)", "sums of Weingarten functions"),
    equation("(3.14)", "any even number of neurons"),
    equation("(3.15)", "the same of the next layer"),
    equation("(3.16)", "G_2m of the next layer"),
    equation("(3.17)", "G_2m of layer 0"),
    equation("(3.18)", "characteristic function as a sum"),
    equation("(3.19)", "the same with rising factorials"),
    equation("(3.20)", "as a hypergeometric function"),
    equation("(3.21)", "as a Bessel function"),
    equation("(3.22)", "density: a sphere"),
    equation("(3.23)", "density of Gaussian weights"),
    equation("(3.24)", "G_2m of Gaussian weights"),
)

VERTICES: tuple[Item, ...] = (
    equation("(4.1)", "two neurons of the next layer", outside=step_of("(4.3)")),
    equation("(4.2)", "without the weights", outside=step_of("(4.3)")),
    equation("(4.3)", "K of the next layer"),
    equation("(4.4)", "χ_∥"),
    equation("(4.5)", "χ_⊥"),
    equation("(4.6)", "K*", outside=DEFINITION),
    equation("(4.7)", "critical point of φ of degree 1"),
    equation("(4.8)", "critical point of smooth φ"),
    equation("(4.9)", "four neurons of the next layer, exact in n", outside=step_of("(4.16)")),
    equation("(4.10)", "a Weingarten function at large n"),
    equation("(4.11)", "the other"),
    equation("(4.12)", "four neurons to leading order", outside=step_of("(4.16)")),
    equation("(4.13)", "what orthogonal weights add to V"),
    equation("(4.14)", "averages of different neurons factor"),
    equation("(4.15)", "what is added, by averages"),
    equation("(4.16)", "V of the next layer, four inputs"),
    equation("(4.17)", "V of linear networks"),
    equation("(4.18)", "V of the next layer, one input"),
    equation("(4.19)", "V of ReLU"),
    equation("(4.20)", "⟨φ⁴⟩ of tanh at small K"),
    equation("(4.21)", "⟨φ²⟩²"),
    equation("(4.22)", "χ_∥"),
    equation("(4.23)", "V of the next layer at small K"),
    equation("(4.24)", "V at large depth"),
    equation("(4.25)", "K to order 1/n", outside=DEFINITION),
    equation("(4.26)", "its correction of the next layer"),
    equation("(4.27)", "the correction at large depth"),
    equation("(4.28)", "the correction with C_W of order 1/n"),
)

TANGENTS: tuple[Item, ...] = (
    equation("(5.1)", "NTK", outside=DEFINITION),
    equation("(5.2)", "gradient descent", outside=DEFINITION),
    equation("(5.3)", "rates of weights and biases", outside=DEFINITION),
    equation(
        "(5.4)",
        "NTK of the next layer of one network",
        open="an identity of one network, printed with a sum over an index that its terms do not have; claims decide "
        "its mean (5.5) and its fluctuations",
    ),
    equation("(5.5)", "its mean Θ"),
    equation("(5.6)", "its deviation", outside=DEFINITION),
    equation("(5.7)", "A and B", outside=STRUCTURE),
    equation("(5.8)", "D and F", outside=STRUCTURE),
    equation("(5.9)", "A and B normalized"),
    equation("(5.10)", "D and F normalized"),
    equation("(5.11)", "differential of the NTK", outside=DEFINITION),
    equation("(5.12)", "P and Q", outside=STRUCTURE),
    equation("(5.13)", "R", outside=STRUCTURE),
    equation("(5.14)", "S, T and U", outside=STRUCTURE),
    equation("(5.15)", "P and Q normalized"),
    equation("(5.16)", "R to U normalized"),
    equation("(5.17)", "rates of the measurements", outside=DEFINITION),
    equation("(A.1)", "V of two inputs normalized"),
    equation("(A.2)", "V of three inputs normalized"),
    equation("(A.3)", "V of four inputs normalized"),
    equation("(A.4)", "A and B of four inputs normalized"),
    equation("(A.5)", "D and F of four inputs normalized"),
)

FIGURES: tuple[Item, ...] = (
    figure("Figure 1", "V against depth", figure="figure1"),
    figure("Figure 2", "eleven correlators, n = 50", figure="figure2"),
    figure("Figure 3", "eleven correlators, n = 20", figure="figure3"),
    *(figure(f"Figure {n}", "losses and NTK while training", outside=training(PAPER, str(n))) for n in range(4, 10)),
    figure("Figure 10", "V of several inputs, linear", figure="figure10"),
    figure("Figure 11", "V of several inputs, ReLU", figure="figure11"),
    figure("Figure 12", "V of several inputs, tanh", figure="figure12"),
    figure("Figure 13", "A, B, D, F of four inputs", figure="figure13"),
    figure("Figure 14", "two first layers", figure="figure14"),
    *(figure(f"Figure {n}", "losses while training", outside=training(PAPER, str(n))) for n in range(15, 21)),
)

ITEMS: tuple[Item, ...] = MOMENTS + VERTICES + TANGENTS + FIGURES
