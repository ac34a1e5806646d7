"""Theories whose positions act on each other: which recursion carries what, and the one that settles.

Behind a BatchNorm J depends on K and K_ab, and its growth often on V = K - K_ab alone, the variance that a batch has by
itself. Where (V, J - J_ab) is closed, or K_ab settles at a value of its own, fixed points, phases and laws are those of
that recursion: there K stands for V, and J for J - J_ab, which grows as J does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import shown, whole
from meanfield.base.quantities import MEASURED, QUANTITIES, carried_by, of_two, read_off
from meanfield.base.symbols import Q0, J, K, K_ab, c_J, sigma_w, tokens
from meanfield.functions.reading.parser import number
from meanfield.networks.folds import attends
from meanfield.networks.records import Block, Dense
from meanfield.symbolic.averages.node import independent
from meanfield.symbolic.averages.nodes.shared_averages import Common
from meanfield.symbolic.averages.nodes.spheres import SphereAverage
from meanfield.symbolic.recursion import Recursion, closed
from meanfield.symbolic.recursions.batch import CONSTANT
from meanfield.symbolic.recursions.block_recursions import ACTING, kind_of, variable
from meanfield.symbolic.recursions.coordinate_walk import OPEN, remembered
from meanfield.symbolic.recursions.first import begun
from meanfield.symbolic.recursions.tokens.exchangeable import carried, exchangeable
from meanfield.symbolic.recursions.tokens.shares import shares
from meanfield.symbolic.recursions.tokens.two_sequences import across
from meanfield.symbolic.steps import Step

if TYPE_CHECKING:
    from meanfield.numeric.run.depth_iteration import Run

NAMES = tuple(n for n in carried_by("exchangeable") if n in MEASURED)
KNOWN = tuple(dict.fromkeys((*NAMES, *read_off("exchangeable"))))
ACROSS = tuple(n for n in carried_by("across") if n not in NAMES)
SHARE = re.compile(r"Theta(_ab)?\[\d+\]")  # of one matrix
MOST_TOKENS = 1 << 16


@dataclass(frozen=True)
class ActingPositions:
    """What is asked of a theory whose positions act on each other; size: of a batch, None for infinitely many."""

    block: Block
    first: Dense
    size: int | None = None

    @property
    def kind(self) -> str:
        """What acts on each other."""
        return kind_of(self.block)

    @remembered(maxsize=128)
    def printed(self) -> Recursion:
        """The recursion of (K, K_ab, J, J_ab, Theta, Theta_ab)."""
        return begun(exchangeable(self.block, self.size), self.first)

    @remembered(maxsize=128)
    def followed(self) -> Recursion:
        """The same as floats follow it: c_J = J_ab/J in the place of J_ab."""
        return begun(carried(self.block, self.size), self.first).reading(read_off("exchangeable"))

    def spelled_out(self, names: Iterable[str]) -> tuple[str, ...]:
        """The names with "entropy" for those of every softmax, as sampled theory and networks call them together."""
        if "entropy" not in names:
            return tuple(names)
        each = [n for n in self.followed().names if n.startswith("entropy[")]
        return tuple(dict.fromkeys(n for name in names for n in (each if name == "entropy" and each else [name])))

    @staticmethod
    def require_known(names: tuple[str, ...], recursion: Recursion, what: str) -> None:
        """Refuse names that positions of this `what` ("batch", "tokens") have not."""
        for name in names:
            if name in (*recursion.names, *dict(recursion.readout)) or SHARE.fullmatch(name):
                continue
            if name not in KNOWN:
                apart, acting = "of two inputs apart from all others", "not derived where positions act on each other"
                why = apart if of_two(name) else acting
                raise MeanFieldError(
                    f"{name} was asked for, which is {why}; of a {what if what == 'batch' else 'network of tokens'} "
                    f"there are {', '.join(KNOWN)}."
                )
            if name.startswith("Theta") and "Theta" not in recursion.names:
                raise MeanFieldError(
                    f"{name} is not derived here: {OPEN}"
                )

    def selected(self, names: tuple[str, ...]) -> Recursion:
        """The maps of `names` and of what they depend on."""
        if (apart := self._apart(names)) is not None:
            return apart
        found = self.printed().with_own(_given(names))
        self.require_known(names, found, self.kind)
        if "c" in names:
            raise MeanFieldError(
                "The map of c is not available: positions of a batch have K and K_ab, of which c is K_ab/K."
            )
        return found.only(*names)

    def _apart(self, names: tuple[str, ...]) -> Recursion | None:
        """The recursion of the tangent kernel by matrices, or of what two inputs of several tokens have in common; None
        where neither is asked for."""
        by_matrices = any(map(SHARE.fullmatch, names))
        if not by_matrices and not set(names) & set(ACROSS):
            return None
        made = (shares if by_matrices else across)(self.block)
        found = begun(made, self.first).reading(read_off("across")).with_own(_given(names))
        wrong = [n for n in names if n not in (*found.names, *dict(found.readout))]
        if wrong and by_matrices:
            held = ", ".join(n for n in found.names if n.startswith("Theta["))
            raise MeanFieldError(
                f"{wrong[0]} was asked for beside a share of the tangent kernel; with K, K_ab and c go {held} and "
                "their Theta_ab[d], one for each Dense and [0] for the input layer."
            )
        if wrong:
            raise MeanFieldError(
                f"{wrong[0]} was asked for beside what tokens of two inputs have in common; with K_same and K_other "
                f"go {', '.join(n for n in found.names if n not in ('K_same', 'K_other'))} and c."
            )
        return found.only(*names)

    @remembered(maxsize=256)
    def to_follow(self, names: tuple[str, ...]) -> Recursion:
        """What a run of `names` is made of."""
        if (apart := self._apart(names)) is not None:
            return apart
        found = self.followed().with_own(_given(names))
        self.require_known(names, found, self.kind)
        wanted = [n for n in names if n in (*found.names, *dict(found.readout))]
        if "J" in names or "J_ab" in names:
            wanted += [n for n in ("J", "K_ab", "c_J") if n in found.names]
        if set(names) & {"Theta", "Theta_ab"}:
            wanted += ["Theta", "Theta_ab"]
        return found.only(*dict.fromkeys(("K", *wanted)))

    def refuse_impossible(
        self,
        places: Mapping[str, Any],
        parameters: Mapping[str, Any],
        begin: Mapping[str, Any],
        names: tuple[str, ...],
    ) -> None:
        """Refuse correlations that no T tokens have, and two inputs' that contradict them."""
        import numpy as np

        T = parameters.get("tokens")
        if not attends(self.block) or not isinstance(T, int | float) or T < 1:
            return
        if T == 1 and any(n.startswith("entropy") for n in names):
            raise MeanFieldError(
                "The entropy of a softmax over one token is 0, and so is what it is measured in, log T."
            )
        cosine = np.asarray(0.0 if places["correlation"] is None else places["correlation"], dtype=float)
        least = -1 / (T - 1) if T > 1 else -1.0
        if not ((cosine >= least * (1 + 1e-12)) & (cosine <= 1)).all():
            raise MeanFieldError(
                f"The cosine of any two of {T} tokens lies in [{least:.4g}, 1], but correlation = "
                f"{shown(places['correlation'])} was given."
            )
        if "distance" in begin and "K" in begin:
            most = 2 * np.asarray(begin["K"]) * (1 - least)
            if not (np.asarray(begin["distance"]) <= most * (1 + 1e-12)).all():
                raise MeanFieldError(
                    f"The distance of any two of {T} tokens is at most 2K T/(T - 1); give a smaller one."
                )
        if {"c_same", "c_other"} <= set(parameters):
            same, other = (np.asarray(parameters[n], dtype=float) for n in ("c_same", "c_other"))
            inside = np.abs(same - other) <= (1 - cosine) * (1 + 1e-12)
            if not (inside & (np.abs(same + (T - 1) * other) <= (1 + (T - 1) * cosine) * (1 + 1e-12) + 1e-15)).all():
                raise MeanFieldError(
                    "c_same and c_other contradict the correlation of the tokens of one input: |c_same - c_other| is "
                    "at most 1 - c, and |c_same + (T - 1) c_other| at most 1 + (T - 1) c."
                )

    @remembered(maxsize=128)
    def limiting_recursion(self) -> Recursion:
        """The recursion of (V, J - J_ab), as (K, J): V = K - K_ab.

        Raises: MeanFieldError where it is not closed and K_ab does not settle by itself.
        """
        whole_ = self.followed()
        infinite = whole_["J"] == sp.oo
        if self.kind == "tokens":  # K and J do not see K_ab
            one = whole_.only("K") if infinite else whole_.only("K", "J")
            if set(one.names) <= {"K", "J"}:
                return one
            raise _refuse(self.block)
        flat = whole_.flat().map(_numbered).map(independent)
        V = sp.expand(_within((flat["K"] - flat["K_ab"]).xreplace({K: K + K_ab})))
        own = sp.S.Zero if infinite else flat["J"]
        if "c_J" in flat.names and not infinite:  # per J: (1 - c_J)′ (growth) of what grows like 1 - c_J
            between = flat["c_J"] * flat["J"] / J
            own = sp.cancel(sp.together((flat["J"] / J - between).xreplace({K: K + K_ab}) / (1 - c_J))) * J
            if own.has(c_J):
                own = sp.simplify(own)
        own = _within(own.xreplace({K: K + K_ab})) if "c_J" not in flat.names else _within(own)
        if own.has(K_ab) or V.has(K_ab):
            rest = _fixed_covariance(flat)
            own, V = own.xreplace({K_ab: rest}), V.xreplace({K_ab: rest})
        if own.has(c_J) or V.has(K_ab):
            raise _refuse(self.block)
        start = sigma_w**2 * Q0
        state = [variable(K, begun_start(start, self.first))]
        nexts = [V]
        if not infinite:
            state.append(variable(J, sp.S.One))
            nexts.append(sp.collect(own, J))
        kept = Recursion(tuple(state), Step(tuple(nexts)))
        used = {s.name for s in kept.parameters}
        return replace(kept, domain=tuple((s, d) for s, d in whole_.domain if s.name in used))

    def invariant(self) -> sp.Expr:
        """J^{l,l+1} (K - K_ab)^l/(K - K_ab)^{l+1}, where nothing of the state is left in it."""
        if self.kind != "batch":
            raise MeanFieldError("The invariant of a BatchNorm is not available: this block holds none.")
        recursion = self.limiting_recursion()
        if recursion["J"] == sp.oo:
            raise MeanFieldError(
                "The invariant of a BatchNorm is not available: J is infinite at every layer (φ jumps)."
            )
        growth, following = (closed(e) for e in (sp.expand(recursion["J"] / J * K), recursion["K"]))
        found = sp.cancel(sp.together(growth / following))
        if found.has(K, Common):
            why = "with a skip, or a norm at the block's end, it depends on K - K_ab"
            why = "behind φ the product depends on K_ab" if found.has(Common) else why
            raise MeanFieldError(f"The invariant of a BatchNorm is not available: {why}: there is none.")
        return found if self.is_exact() else sp.N(found, 14)

    def is_exact(self) -> bool:
        """Whether every average over a normalized batch of the maps has a closed form."""
        steps = exchangeable(self.block, self.size).steps
        nodes = {n for step in steps for e in step.expressions for n in e.atoms(SphereAverage)}
        return not any(n.doit().has(SphereAverage) for n in nodes)

    @staticmethod
    def inside(recursion: Recursion, values: Mapping[str, Any]) -> dict[str, sp.Expr]:
        """The values of parameters that stand inside the averages of a batch: they are put in before anything is
        compiled."""
        held = _names_inside(recursion)
        found = {k: number(v, k) for k, v in values.items() if k in held}
        return found | _tokens(recursion, values)

    @staticmethod
    @remembered(maxsize=256)
    def at(recursion: Recursion, numbers: tuple[tuple[str, sp.Expr], ...]) -> Recursion:
        """The recursion with these numbers inside its averages."""
        return recursion.replaced(dict(numbers))

    @staticmethod
    def checked_start(given: Mapping[str, Any], recursion: Recursion) -> dict[str, Any]:
        """A start by K, K_ab and others."""
        wrong = sorted(set(given) - {*recursion.names, *carried_by("exchangeable"), "distance"})
        if wrong:
            raise MeanFieldError(
                f"A start with {shown(wrong[0])} was given; positions that act on each other start with K and K_ab."
            )
        return dict(given)

    @staticmethod
    def refuse_constant(run: Run) -> None:
        """Refuse a run where a BatchNorm met neurons that are constant over the batch: 0/0, which only σ's or inputs
        show.

        Looked at is every layer that a block stands behind, and J, which such a block leaves undefined.
        """
        import numpy as np

        K, values = run.values["K"], run.values
        met = run.undefined("J", "log_J")
        if "K_ab" in values:
            met |= (np.isfinite(K) & (values["K_ab"] == K))[..., :-1].any(-1)
        if met.any():
            raise MeanFieldError(CONSTANT.format(run.at_points(met)))


ACTING.update(dict.fromkeys(("batch", "tokens"), ActingPositions))


def _given(names: tuple[str, ...]) -> tuple[str, ...]:
    """Those that positions that act on each other have."""
    return tuple(n for n in names if n in QUANTITIES and set(QUANTITIES[n].recursions) & {"exchangeable", "across"})


@lru_cache(maxsize=256)
def _names_inside(recursion: Recursion) -> frozenset[str]:
    nodes = [n for step in recursion.steps for e in step.expressions for n in e.atoms(SphereAverage, Common)]
    return frozenset(s.name for n in nodes for s in n.args[3].free_symbols)


def _tokens(recursion: Recursion, values: Mapping[str, Any]) -> dict[str, sp.Expr]:
    """How many tokens an input has, where attention needs to know."""
    if tokens not in recursion.parameters:
        return {}
    if values.get("tokens") is None:
        raise MeanFieldError(
            "An Attention weighs the tokens of an input, so that their number is needed; give tokens=, for example "
            "tokens=128."
        )
    return {"tokens": sp.Integer(whole(values["tokens"], "tokens", 1, MOST_TOKENS))}


def _within(e: sp.Expr) -> sp.Expr:
    """K + K_ab - K_ab → K inside of quotients and of averages over what a batch shares."""
    nodes = {n: Common(n.args[0], sp.expand(n.own), sp.expand(n.shared), n.params) for n in e.atoms(Common)}
    e = e.xreplace(nodes)
    return e.replace(lambda a: a.is_Add and a.has(K_ab), sp.expand)


def _numbered(e: sp.Expr) -> sp.Expr:
    """Averages over a normalized batch by their closed forms, else as numbers of 15 digits."""
    swap = {}
    for node in e.atoms(SphereAverage):
        closed = node.doit()
        if closed.has(SphereAverage):
            if node.free_symbols:
                raise MeanFieldError(
                    f"The fixed point of this network is not known: {node} holds symbols; give numbers for them in "
                    "derive(...)."
                )
            from meanfield.numeric.quadrature.sphere import sphere_value

            closed = sp.Rational(f"{sphere_value(node)[0]:.15e}")
        swap[node] = closed
    return e.xreplace(swap)


def _fixed_covariance(flat: Recursion) -> sp.Expr:
    """Where K_ab settles, from an affine map of its own."""
    e = sp.expand(flat["K_ab"])
    rate = sp.diff(e, K_ab)
    rest = sp.expand(e - rate * K_ab)
    if rate.has(K, K_ab) or rest.has(K, K_ab) or rate == 1:
        raise MeanFieldError(
            "The fixed point of this network is not known: J depends on K and K_ab, which do not converge apart from "
            "each other; follow them with propagate."
        )
    return rest / (1 - rate)


def begun_start(start: sp.Expr, first: Dense) -> sp.Expr:
    """V at layer 1 with the σ's of the input layer."""
    return begun(Recursion((variable(K, start),), Step((K,))), first).state[0].initial


def _refuse(block: Block) -> MeanFieldError:
    if attends(block):
        return MeanFieldError(
            "Fixed points of K and diagrams are not derived where an Attention mixes tokens; phase, critical_line "
            "and correlations say where tokens end, depth_law how, and propagate takes arrays of deviations."
        )
    return MeanFieldError(
        f"The fixed point of the block {block} is not known: K and K_ab do not close apart from each other; follow "
        "them with propagate."
    )
