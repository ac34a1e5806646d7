"""What became of every statement C1 to C30."""

from __future__ import annotations

EXACT, WRONG, PARTLY = "holds", "refuted", "holds in part"
TRAINED, UNREAD, NONE = "rests on training", "unread", "nothing to decide"
#: (statement, source, what became of it, what is right, or why not)
STATEMENTS: tuple[tuple[str, str, str, str], ...] = (
    ("C1", "2403.09635", EXACT, "linear layer: proved"),
    ("C2", "2403.09635", EXACT, "relu, all five moments: proved"),
    ("C3", "2403.09635", EXACT, "erf-gelu, all five moments: proved"),
    ("C4", "2403.09635", PARTLY, "LayerNorm: proved at d → ∞; at finite d the covariance of two tokens is r(1 - "
     "(1 - r²)/(2d)), not r(1 - 1/d), which is below 1 at r = 1"),
    ("C5", "2403.09635", EXACT, "dropout: algebra (no record of the engine)"),
    ("C6", "2403.09635", PARTLY, "softmax: short form 0.8 % high at β = ½ (n = 256), 4 % at 1, 3-fold at 2; the long "
     "form is worse everywhere; its gradient 4.7-fold at β = 2"),
    ("C7", "2403.09635", PARTLY, "forward within 10 % while s < .76 (T = 16) or 1.5 (T = 1024) at r = 0, further at r "
     "> 0; gradient off by 10 % from s = .19 on at r = r_g = 0: queries and keys, and e^{β²} of the values"),
    ("C8", "2403.09635, second-hand", PARTLY, "pre-LN: K ~ l; J ~ l for relu, J ~ l^p with p = (1 + χ)/(1 + κ) else. "
     "Post-LN: no exponential for relu, rate log((1 + χ)/(1 + κ)) else"),
    ("C9", "third party", WRONG, "the repository's own log has 44.5 % at the 99th percentile (read, not run)"),
    ("C10", "2002.04745", NONE, "the setting of C11 to C16"),
    ("C11", "2002.04745", EXACT, "3/2 for any number of tokens: the norm before the layer is all it needs"),
    ("C12", "2002.04745", EXACT, "1 + l/2 + Σ(ρ + (1 - ρ)/n): the upper bound is reached, 3l/2 - O(l^{1/3}); for one "
     "token it is the value"),
    ("C13", "2002.04745", PARTLY, "Lemma 1 proved; Lemma 3: ‖J_LN‖ = √d/‖x - mean‖, which √d/‖x‖ bounds only where the "
     "mean is no large part of x"),
    ("C14", "2002.04745", EXACT, "powers of L, 0 and -½, in the last layer; √log d is a bound's, no size"),
    ("C15", "2002.04745; 2/3 second-hand", WRONG, "post-LN: J falls while tokens come together, to about 4.3/T at T = "
     "16, and not further: no rate; pre-LN: by weights of block l as l^{-½}, not equal"),
    ("C16", "2002.04745", TRAINED, "data and a loss: that pre-LN falls with L is C14"),
    ("C17", "2103.03404, second-hand", PARTLY, "cubic: 1 - ρ' = (1 - ρ)³σ²(T - 1)/T², proved; its condition fails by "
     "√d at random matrices (γ unread, taken as 1)"),
    ("C18", "2103.03404", WRONG, "a skip slows collapse: 1 - ρ halves a layer without a norm (V = K), and goes as 1/l "
     "behind one: the norm decides; without a skip it attracts also behind a tanh layer"),
    ("C19", "2206.03126, theorems unread", EXACT, "Θ_Q/Θ_V = (1 - ρ)²σ²(T - 1)/T², proved; "
     "branches of 1/√L keep 1 - ρ"),
    ("C20", "2306.17759, constants unread", UNREAD, "a noise of order L/d is not in the limit of infinite width"),
    ("C21", "2403.02579", PARTLY, "transition: yes. Where tokens come together λ_g - λ_a = log(1 + α_A²/((1 - "
     "α_A²)K*)) > 0, so that both are 0 nowhere there but at α_A = 0; the best loss rests on training"),
    ("C22", "third party", EXACT, "the model of C21, with α = ½: ordered at σ_w = 1, chaotic at 8"),
    ("C23", "2505.24333, code", PARTLY, "the limit; at T = 512, p = .3, β = 1.5 it says q' - p' = 0 for .127; the "
     "correction is about ½/log T at β = 2β_c, still .04 at T = 10⁶"),
    ("C24", "2505.24333, code", EXACT, "its maps are the engine's with Φ(1) = Y, Φ(ρ) = 0: proved; α multiplies the "
     "skip"),
    ("C25", "2505.24333, code", WRONG, "networks follow √(2/(1 - ρ)), by normalized q, p: proved and measured"),
    ("C26", "2505.24333, code", PARTLY, "one layer: the last token is as without a mask. After 6 blocks of post-LN, T "
     "= 64, 1 - c is .120 under a mask, .095 without"),
    ("C27", "2604.11890, recurrences unread", EXACT, "pre-LN: powers, which attention changes for all but relu; DyT: "
     "exp(c√l), c with attention (½ + 1/T)(4/3)/√(2πA), A what a block adds to K"),
    ("C28", "2502.05795", PARTLY, "at the start pre-LN's variance grows linearly, with LN/√l as log l; the "
     "exponential rests on training"),
    ("C29", "LNS, README", TRAINED, "at the start: with 1/√(2l) K stays below 3, with 1/√(2L) at 1: branches are then "
     "small twice over; losses rest on training"),
    ("C30", "2502.02732, formulas second-hand", PARTLY, "peri: K = 1 + 2l, proved; the order post > pre > peri "
     "holds at the last block for σ_v²σ_o² below about σ_2²κ and not at σ = 1"),
)  # fmt: skip
