"""What became of every figure of the five papers that needs training."""

from __future__ import annotations

HOLDS, REFUTED, NOT_SEEN, OUT = "holds at reduced scale", "refuted", "not seen at this scale", "out of reach"
PARTIAL, BIAS, VARIANCE = "partial_jacobians", "bias_and_trainability", "variance_variation"
ORTHOGONAL, AUTOINIT = "orthogonal_weights", "autoinit"
#: (paper, figure, what became of it, what is seen, or why not)
FIGURES: tuple[tuple[str, str, str, str], ...] = (
    (PARTIAL, "3", HOLDS, "tanh, depth 6-48, eight sigma_w, four networks each: trainable depth ranks as xi (.98; as "
     "that of tanh(z/4): .24); ReLU with LayerNorm and mu = 1 trains everywhere"),
    (PARTIAL, "4", HOLDS, "Mixer of 30 blocks on 16 tokens at (10, 10): mu = 1 trains, mu = 1/2 does not"),
    (PARTIAL, "6", HOLDS, "erf, depth 12: with LayerNorm the rate that is best at 1 serves sigma_w^2 = 30"),
    (PARTIAL, "9", HOLDS, "erf with LayerNorm, depth 12: sigma_w^2 = 1 to 1000, each with a rate of its own"),
    (BIAS, "5", HOLDS, "tanh, depth 30 (upper row; the lower one is a ViT): biased at the start, absorbed"),
    (BIAS, "6", HOLDS, "ReLU, ten digits: after 50 steps of Adam the edge is ahead of both sides"),
    (BIAS, "7", HOLDS, "tanh, the same"),
    (BIAS, "8", HOLDS, "as figure 6: digits stand for both data sets"),
    (BIAS, "9", HOLDS, "as figure 7"),
    (BIAS, "10", HOLDS, "residual ReLU, odd and even digits: bias is absorbed after 50 steps at every sigma_w"),
    (BIAS, "11", HOLDS, "residual tanh, the same"),
    (BIAS, "12", OUT, "vision transformer: of images and sizes that are not trained here"),
    (BIAS, "13", OUT, "vision transformer"),
    (BIAS, "14", OUT, "ViT-L/16 fine-tuned on CIFAR-100"),
    (VARIANCE, "2", HOLDS, "zig: p divides at one rate; zag: accuracy rises with chi_v. That one line of p serves all "
     "rates is refuted: critical log p is 4.3 at a rate of 1e-2 and 8.5 at 1e-3"),
    (VARIANCE, "3", NOT_SEEN, "tanh, 48 blocks: accuracies differ by less than .1 over the sweep"),
    (ORTHOGONAL, "4", HOLDS, "n = 30, 300 digits, depth 30: smaller test loss in each pair of networks"),
    (ORTHOGONAL, "5", HOLDS, "as figure 4: digits stand for both data sets"),
    (ORTHOGONAL, "6", HOLDS, "orthogonal no worse at depth 30 than at 5, Gaussian worse; the best depth, 3 to 4, is "
     "that of 1e5 epochs and not asked"),
    (ORTHOGONAL, "7", HOLDS, "as figure 6; n = 100 not asked"),
    (ORTHOGONAL, "8", HOLDS, "Theta has moved less at equal training loss: .16 against .24 at depth 5, .06 against .4 "
     "at 30"),
    (ORTHOGONAL, "9", HOLDS, "the same Theta; its off-diagonal entries apart were not asked"),
    (ORTHOGONAL, "15", HOLDS, "C_W = .1: the laws within 1 %, depth 30 stays at the loss of outputs 0"),
    (ORTHOGONAL, "16", HOLDS, "C_W = 10: Gaussian networks of depth 5 diverge; orthogonal ones do, too, here"),
    (ORTHOGONAL, "17", HOLDS, "ReLU: laws within 15 %; tanh: not"),
    (ORTHOGONAL, "18", HOLDS, "plain descent: within 25 % at depth 5, orthogonal better by more at 30"),
    (ORTHOGONAL, "19", HOLDS, "Adam: the same"),
    (ORTHOGONAL, "20", HOLDS, "sigmoid cross-entropy: at depth 30 only orthogonal ones learn"),
    (AUTOINIT, "3", HOLDS, "tanh of 48 layers trains from sigma_w = .5, 2, 4 when tuned, and not as it is; a ResMLP "
     "trains with its small branches"),
    (AUTOINIT, "4", OUT, "VGG19_BN: convolutions are not among the records; the claim on tuning is that of figure 3"),
)  # fmt: skip
