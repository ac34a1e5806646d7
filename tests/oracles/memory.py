"""Networks with a skip by routes that share nothing with the engine: the expansion over pairs of layers, with averages
over two Gaussians by the trapezoidal rule; and explicit networks with their infinite-width twins. NumPy alone."""

from __future__ import annotations

import numpy as np

STEP, REACH = 0.09, 10.0
X = np.arange(-REACH, REACH + STEP / 2, STEP)
W = np.exp(-(X**2) / 2) * STEP / np.sqrt(2 * np.pi)


def tanh(z):
    return np.tanh(z)


def d_tanh(z):
    return 1 / np.cosh(z) ** 2


class Pairs:
    """Averages over layers m < k of a path, z^k = μ^{k−m} z^m + s y; of one layer where k = m."""

    def __init__(self, phi, slope, C, mu, K):
        self.f, self.p, self.q = (lambda z: C * phi(z) ** 2), (lambda z: C * slope(z) ** 2), None
        self.q = lambda z: C * phi(z) * slope(z)
        self.mu, self.K = mu, K

    def one(self, g, k, power=0):
        """⟨g⟩ and its derivatives by K, from the derivatives of the Gaussian itself."""
        K, x = self.K[k], X
        he = {0: 1 + 0 * x, 1: (x**2 - 1) / 2, 2: (x**4 - 6 * x**2 + 3) / 4}[power]
        return np.sum(W * he * g(np.sqrt(K) * x)) / K**power

    def two(self, k, m):
        """Connected averages ⟨a(z^k) b(z^m)⟩, their derivatives D by K_kk and R by the covariance."""
        R, Km = self.mu ** (k - m) * self.K[m], self.K[m]
        s = np.sqrt(max(self.K[k] - R * R / Km, 0.0))
        zm, y = np.sqrt(Km) * X[:, None], X[None, :]
        zk, w = R / Km * zm + s * y, W[:, None] * W[None, :]
        fk, pk, fm, pm = self.f(zk), self.p(zk), self.f(zm), self.p(zm)
        fm, pm = fm - np.sum(w * fm), pm - np.sum(w * pm)
        found = {"ff": fk * fm, "pf": pk * fm, "fp": fk * pm, "pp": pk * pm, "qq": self.q(zk) * self.q(zm)}
        if k > m:
            second, first = (y * y - 1) / (2 * s * s), y / s
            found |= {"Dff": second * fk * fm, "Dpf": second * pk * fm, "Rpf": first * pk * 2 * self.q(zm)}
        return {name: float(np.sum(w * value)) for name, value in found.items()}


def expansion(phi, slope, sigma_w, sigma_b, mu, K1, depth, memory=True):
    """K, J, V, G1 and J1 layer by layer; memory=False: the closure on V and G1 of one layer (and what J has beside)."""
    C = sigma_w**2
    pairs = Pairs(phi, slope, C, mu, [K1])
    for k in range(depth - 1):
        pairs.K.append(mu**2 * pairs.K[k] + pairs.one(pairs.f, k) + sigma_b**2)
    K, layers = np.array(pairs.K), range(depth)
    F1, F2 = ([pairs.one(pairs.f, k, i) for k in layers] for i in (1, 2))
    P, P1, P2 = ([pairs.one(pairs.p, k, i) for k in layers] for i in (0, 1, 2))
    a, b = mu**2 + np.array(F1), mu**2 + np.array(P)  # what fluctuations of K and of J are multiplied by
    J = np.concatenate(([1.0], np.cumprod(b[:-1])))
    G, Y, V, GJ, U, Q = np.zeros((6, depth))  # n E δK, n var δK, V, n E δJ, n var δM, n cov(δK, δJ)
    A, B, D = np.zeros((3, depth, depth))  # δK^k and δJ^k by the Gram entry of φ at layer m; δJ^k by that of φ′t
    for k in range(depth - 1):
        at = [pairs.two(k, m) if memory or m == k else None for m in range(k + 1)]
        old = range(k) if memory else range(0)
        same = [mu ** (k - m) * J[m] for m in range(k + 1)]
        G[k + 1] = a[k] * G[k] + F2[k] * Y[k] / 2 + sum(A[k, m] * at[m]["Dff"] for m in old)
        known = sum(A[k, m] * at[m]["ff"] for m in old)
        Y[k + 1] = a[k] ** 2 * Y[k] + 2 * a[k] * known + at[k]["ff"]
        GJ[k + 1] = b[k] * GJ[k] + J[k] * (P1[k] * G[k] + P2[k] * Y[k] / 2) + P1[k] * (Q[k] + 2 * U[k])
        GJ[k + 1] += sum(
            A[k, m] * (J[k] * at[m]["Dpf"] + same[m] * at[m]["Rpf"])
            + B[k, m] * at[m]["pf"]
            + D[k, m] * J[m] * at[m]["pp"]
            for m in old
        )
        U[k + 1] = a[k] ** 2 * U[k] + J[k] * at[k]["qq"]
        U[k + 1] += 2 * a[k] * sum(A[k, m] * same[m] * at[m]["qq"] for m in old)
        Q[k + 1] = a[k] * b[k] * Q[k] + a[k] * J[k] * P1[k] * Y[k] + J[k] * (P1[k] * known + at[k]["fp"])
        Q[k + 1] += a[k] * J[k] * sum(A[k, m] * at[m]["pf"] for m in old)
        Q[k + 1] += b[k] * sum(B[k, m] * at[m]["ff"] + D[k, m] * J[m] * at[m]["fp"] for m in old)
        B[k + 1] = b[k] * B[k] + J[k] * P1[k] * A[k]
        A[k + 1], D[k + 1] = a[k] * A[k], b[k] * D[k]
        A[k + 1, k] = D[k + 1, k] = 1
        own = sum(A[k + 1, m] * mu ** (2 * (k + 1 - m)) * 4 * K[m] ** 2 * F1[m] for m in range(k + 1))
        if not memory:  # V of Wφ + μz, where E f of one layer holds V and G1 alone
            Y[k + 1] += 4 * mu**2 * K[k] ** 2 * F1[k]
        V[k + 1] = Y[k + 1] + (own if memory else 0)
    return {"K": K, "J": J, "V": V, "G1": G, "J1": GJ}


def networks(phi, slope, sigma_w, sigma_b, mu, K1, depth, n, count, seed, theory):
    """n(E K − K), n(E J − J)/J of `count` explicit networks at layers 2 …, with standard errors: (2, 2, depth − 1).

    Each network is paired with its infinite-width twin: neurons whose increments are those of the network, scaled to
    the variances they have at infinite width. What the twins' averages miss of theirs, which is 0 in the mean, is taken
    off by regression. A Jacobian is seen by one random tangent at layer 1. theory: K, J of infinite width.
    """
    rng, C, out = np.random.default_rng(seed), sigma_w**2, [[], []]
    K, J = theory["K"], theory["J"]
    z, t = rng.standard_normal((count, n)) * np.sqrt(K1), rng.standard_normal((count, n))
    twin, tangent, controls = z.copy(), t.copy(), []
    for l in range(depth - 1):
        u, v = phi(z), slope(z) * t
        weights = rng.standard_normal((count, n, n), dtype=np.float32) * np.float32(sigma_w / np.sqrt(n))
        both = np.matmul(weights, np.stack((u, v), -1).astype(np.float32)).astype(float)
        g, h = both[..., 0] + sigma_b * rng.standard_normal((count, n)), both[..., 1]
        s, c, tau = C * (u * u).mean(1) + sigma_b**2, C * (u * v).mean(1), C * (v * v).mean(1)
        first = g / np.sqrt(s)[:, None]
        alone = np.maximum(tau - c * c / s, 1e-9 * tau + 1e-30)  # 0 where all neurons are dead
        second = (h - (c / np.sqrt(s))[:, None] * first) / np.sqrt(alone)[:, None]
        # what layer l + 1 of infinite width adds to K and J
        wide_s, wide_tau = K[l + 1] - mu**2 * K[l], J[l + 1] - mu**2 * J[l]
        controls += [C * (phi(twin) ** 2).mean(1) + sigma_b**2 - wide_s]
        controls += [C * ((slope(twin) * tangent) ** 2).mean(1) / wide_tau - 1]
        z, t = g + mu * z, h + mu * t
        twin, tangent = np.sqrt(wide_s) * first + mu * twin, np.sqrt(wide_tau) * second + mu * tangent
        for i, (a, b, unit) in enumerate(((z, twin, 1.0), (t, tangent, J[l + 1]))):
            found = n * ((a * a).mean(1) - (b * b).mean(1)) / unit
            X = np.stack(controls, 1)
            X = np.concatenate((X, np.ones((count, 1))), 1)
            best, *_ = np.linalg.lstsq(X, found, rcond=None)
            rest = found - X[:, :-1] @ best[:-1]
            out[i].append((rest.mean(), rest.std(ddof=X.shape[1]) / np.sqrt(count)))
    return np.moveaxis(np.array(out), -1, 1)
