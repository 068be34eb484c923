"""Order within one skeleton: the causality engine's pass over the event graph, with ties.

Ties may point backwards, so the pass is repeated where they end until nothing changes. `given`
answers for a given set of ties. `needs` answers for all at once: for each pair, the smallest sets
of ties that order it, which the solver turns into a formula.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from ..causality import Bits, Causality
from ..composition import ROWS, Row, State, Via
from ..graph import AccessEvent, members
from .skeleton import Skeleton, Tie

Known = list[Bits]
Ways = dict[int, list[frozenset[int]]]


@dataclass(frozen=True)
class Before:
    """`accesses[b]`: the accesses before access b, as bits; `fences[f]`: the fences.sc before f."""

    accesses: tuple[int, ...]
    fences: tuple[int, ...]


class Order(Causality):
    """What comes before what, given the ties that hold."""

    def __init__(self, skeleton: Skeleton, rows: tuple[Row, ...] = ROWS) -> None:
        super().__init__(skeleton.graph, rows, skeleton.reading)
        self.skeleton = skeleton
        self.first_fence = len(skeleton.accesses)
        # The first operation of a release pattern, and a fence.sc, come before what follows them.
        self.ends = {
            fence.node: 1 << (self.first_fence + number)
            for number, fence in enumerate(skeleton.fences)
        }
        for bits, node in skeleton.releasing:
            self.ends[node] = self.ends.get(node, 0) | bits
        self.held = self.composition.number(State())
        self._base: Known | None = None
        self._found: dict[frozenset[int], Before] = {}

    def given(self, ties: frozenset[int]) -> Before:
        """The order when exactly these ties (indices into `Skeleton.ties`) hold."""
        found = self._found.get(ties)
        if found is None:
            found = self._found[ties] = self._read_off(self._propagate(ties))
        return found

    # --- the pass ----------------------------------------------------------------------------

    def _propagate(self, ties: frozenset[int]) -> Known:
        if self._base is None:
            self._base = []
            for number in range(len(self.graph.nodes)):
                self._base.append(self._node(number, self._base, ()))
        if not ties:
            return self._base
        known = list(self._base)
        active = [self.skeleton.ties[number] for number in ties]
        into: dict[int, list[Tie]] = {}
        for tie in active:
            into.setdefault(tie.target, []).append(tie)
        waiting = sorted(into)
        while waiting:
            number = waiting.pop(0)
            here = self._node(number, known, into.get(number, ()))
            if here == known[number]:
                continue
            known[number] = here
            after = [target for target, _ in self.graph.successors.get(number, ())]
            after += [tie.target for tie in active if tie.source == number]
            waiting = sorted({*waiting, *after})
        return known

    def _node(self, number: int, known: Known, ties: tuple[Tie, ...] | list[Tie]) -> Bits:
        node = self.graph.nodes[number]
        here: Bits = {}
        edges = [*node.preds, *((tie.source, tie.label) for tie in ties)]
        for source, label in edges:
            answers = self._answers.setdefault(label, {})
            for state, bits in known[source].items():
                steps = answers.get(state)
                if steps is None:
                    steps = answers[state] = self._follow(label, state)
                for after, mask in steps:
                    if bits & mask:
                        here[after] = here.get(after, 0) | bits & mask
        for injection in node.injections:
            if injection.rule in self.flow.rules:
                state = self.composition.number(injection.state)
                here[state] = here.get(state, 0) | injection.bits
        own = self.ends.get(number)
        if own:
            here[self.held] = here.get(self.held, 0) | own
        for label, mask in node.effects:
            here = self._effect(here, label, mask)
        return here

    def _read_off(self, known: Known) -> Before:
        self.known = {event.begin: known[event.begin] for event in self.graph.accesses}
        everything = (1 << self.first_fence) - 1
        accesses = tuple(self._ordered(event, everything) for event in self.graph.accesses)
        fences = []
        for number, fence in enumerate(self.skeleton.fences):
            reached = 0
            for bits in known[fence.node].values():
                reached |= bits >> self.first_fence
            fences.append(reached & ~(1 << number))
        return Before(accesses, tuple(fences))

    def _ordered(self, event: AccessEvent, among: int) -> int:
        """Before the access: surely, or with a doubt that its reading grants as a note."""
        found = self._before(event, among)
        bits = found.surely
        for _, some in found.doubtful:
            bits |= some
        return bits & ~(1 << event.number)

    def _arriving(self, event: AccessEvent, among: int) -> Iterator[tuple[State, int]]:
        """Up to ISA 6.0 program order alone is no causality: what the thread itself did before
        must come back to it from another thread (§8.9.5)."""
        if self.context.has("po-is-causality"):
            yield from super()._arriving(event, among)
            return
        own = self._by_agent[event.where.agent]
        for state, bits in super()._arriving(event, among):
            if state.via is Via.ACQUIRED:
                yield state, bits
            elif bits & ~own:
                yield state, bits & ~own

    @cached_property
    def _by_agent(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for event in self.graph.accesses:
            agent = event.where.agent
            found[agent] = found.get(agent, 0) | 1 << event.number
        return found

    # --- all ties at once --------------------------------------------------------------------

    def needs(self) -> tuple[list[Ways], list[Ways]]:
        """For each access (fence) b and each a that can come before it, the smallest sets of ties
        any one of which is enough: a is before b iff all ties of some set hold."""
        accesses: list[Ways] = [{} for _ in self.graph.accesses]
        fences: list[Ways] = [{} for _ in self.skeleton.fences]
        for ties in sorted(self._chains(), key=lambda chain: (len(chain), sorted(chain))):
            before = self.given(ties)
            for b, bits in enumerate(before.accesses):
                _note(accesses[b], bits, ties)
            for b, bits in enumerate(before.fences):
                _note(fences[b], bits, ties)
        return accesses, fences

    def _chains(self) -> set[frozenset[int]]:
        """The ties of every path through the graph: each leads to the next, and none comes back
        to a node, which would add nothing."""
        ties = self.skeleton.ties
        found = {frozenset[int]()}
        stack = [(frozenset((n,)), n, frozenset((tie.target,))) for n, tie in enumerate(ties)]
        while stack:
            chain, last, visited = stack.pop()
            found.add(chain)
            reached = self._reach[ties[last].target]
            for number, tie in enumerate(ties):
                if reached >> tie.source & 1 and tie.target not in visited:
                    stack.append((chain | {number}, number, visited | {tie.target}))
        return found

    @cached_property
    def _reach(self) -> list[int]:
        """The nodes that each node leads to without ties, itself included."""
        found = [0] * len(self.graph.nodes)
        for number in reversed(range(len(found))):
            bits = 1 << number
            for target, _ in self.graph.successors.get(number, ()):
                bits |= found[target]
            found[number] = bits
        return found


def _note(found: Ways, bits: int, ties: frozenset[int]) -> None:
    for a in members(bits):
        ways = found.setdefault(a, [])
        if not any(way <= ties for way in ways):
            ways.append(ties)
