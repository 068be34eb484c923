"""In one matching, can the second of two accesses be performed before the first? Asked of z3.

`pair` has a time for each event and for both accesses, and one named assertion a rule, so that an
unsatisfiable core says which rules carry the order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .causality import Causality
from .composition import ROWS, Edge, Label, Row, State
from .graph import AccessEvent, Graph, Injection
from .readings import Reading
from .smt import Effort, Formula

PAIR_UNITS = 100_000_000
"""Work that z3 may spend on one pair."""


@dataclass(frozen=True)
class Reversal:
    """Events (nodes of the graph) in an order in which the second access is performed first."""

    nodes: tuple[int, ...]


@dataclass(frozen=True)
class Core:
    """The second access cannot be performed first: the rules that forbid it."""

    rules: tuple[str, ...]


class _Acceptance(Causality):
    """Which states of one access let another follow it: the tables, without the pass."""

    def _pass(self) -> None:
        pass

    def accepts(self, state: State, first: AccessEvent, second: AccessEvent) -> bool:
        bit = self._in_time(state, 1 << first.number, second)
        if not bit or state.note:
            return False
        return bool(self._across_proxies(state, bit, second)[0])


def pair(
    graph: Graph,
    first: AccessEvent,
    second: AccessEvent,
    rows: tuple[Row, ...] = ROWS,
    reading: Reading | None = None,
) -> Reversal | Core:
    """Is there an order of events in which `second` is performed before `first`?

    Events keep the edges of execution; each access is performed after its begin; and `first` is
    performed before `second` when the composition table lets it be known, in a state that `second`
    accepts, where `second` begins. `reading` is the graph's, unless readings share the graph.
    """
    return _Pair(graph, first, second, rows, reading).solve()


def ancestors(graph: Graph, roots: Iterable[int]) -> set[int]:
    """The nodes that precede the given ones as execution, and these themselves."""
    seen = set(roots)
    queue = list(seen)
    while queue:
        for source, _ in graph.nodes[queue.pop()].preds:
            if source not in seen:
                seen.add(source)
                queue.append(source)
    return seen


Fact = tuple[int, int, State]
"""At a node, after so many of its effects, the first access is known in this state."""


class _Pair:
    def __init__(
        self,
        graph: Graph,
        first: AccessEvent,
        second: AccessEvent,
        rows: tuple[Row, ...],
        reading: Reading | None,
    ) -> None:
        import z3

        self.z3: Any = z3
        self.graph = graph
        self.first = first
        self.second = second
        self.rows = rows
        self.acceptance = _Acceptance(graph, rows, reading)
        self.solver: Any = z3.Solver()
        self.solver.set("core.minimize", True)
        self.rules: dict[str, Formula] = {}
        self.facts: dict[Fact, Formula] = {}
        self.fresh: list[Fact] = []
        self.successors: dict[int, list[tuple[int, Label]]] = defaultdict(list)
        for number, node in enumerate(graph.nodes[: second.begin + 1]):
            for source, label in node.preds:
                self.successors[source].append((number, label))
        self.cone = sorted(ancestors(graph, (first.issue, first.begin, second.begin)))
        self.time: dict[int, Formula] = {n: z3.Int(f"time {n}") for n in self.cone}
        self.performed: tuple[Formula, Formula] = (z3.Int("first"), z3.Int("second"))

    def solve(self) -> Reversal | Core:
        one, two = self.performed
        self._execution()
        self._inject()
        while self.fresh:
            self._spread(self.fresh.pop())
        self._accept()
        self.solver.add(two < one)
        if Effort(PAIR_UNITS).satisfiable(self.z3, self.solver, *self.rules.values()):
            return Reversal(self._order(self.solver.model()))
        names = {str(literal) for literal in self.solver.unsat_core()}
        return Core(tuple(name for name in self.rules if name in names))

    def _execution(self) -> None:
        one, two = self.performed
        for number in self.cone:
            for source, label in self.graph.nodes[number].preds:
                if label.edge is not Edge.BEGIN or self.acceptance.context.has(label.rule):
                    self.solver.add(self.time[source] < self.time[number])
        self.solver.add(self.time[self.first.begin] < one, self.time[self.second.begin] < two)

    def _order(self, model: Any) -> tuple[int, ...]:
        def when(number: int) -> tuple[int, int]:
            return model.eval(self.time[number], model_completion=True).as_long(), number

        return tuple(sorted(self.cone, key=when))

    # --- known: the composition table as implications --------------------------------------------

    def _imply(self, rule: str, before: Formula | None, after: Formula) -> None:
        literal = self.rules.setdefault(rule, self.z3.Bool(rule))
        premises = literal if before is None else self.z3.And(literal, before)
        self.solver.add(self.z3.Implies(premises, after))

    def _know(self, rule: str, before: Formula | None, fact: Fact) -> None:
        if fact not in self.facts:
            number, stage, _ = fact
            self.facts[fact] = self.z3.Bool(f"known {number} {stage} {len(self.facts)}")
            self.fresh.append(fact)
        self._imply(rule, before, self.facts[fact])

    def _inject(self) -> None:
        for number in range(self.second.begin + 1):
            for injection in self.graph.nodes[number].injections:
                if self._covers(injection):
                    self._know(injection.rule, None, (number, 0, injection.state))

    def _covers(self, injection: Injection) -> bool:
        granted = injection.rule in self.acceptance.context.rules
        return granted and bool(injection.bits >> self.first.number & 1)

    def _spread(self, fact: Fact) -> None:
        number, stage, state = fact
        effects = self.graph.nodes[number].effects
        if stage < len(effects):
            label, mask = effects[stage]
            after = self._follow(label, state) if mask >> self.first.number & 1 else []
            for known in after or [state]:
                rule = label.rule if after else "po"
                self._know(rule, self.facts[fact], (number, stage + 1, known))
            return
        for target, label in self.successors[number]:
            for known in self._follow(label, state):
                self._know(label.rule, self.facts[fact], (target, 0, known))

    def _follow(self, label: Label, state: State) -> list[State]:
        """The rows of the composition table for this access."""
        bit = 1 << self.first.number
        found = []
        for row in self.rows:
            if (row.edge, row.mode) == (label.edge, state.mode):
                after = row.then(state, label, self.acceptance.context)
                if after is not None and bit & self.acceptance.masks[row.which]:
                    found.append(after)
        return found

    def _accept(self) -> None:
        one, two = self.performed
        effects = len(self.graph.nodes[self.second.begin].effects)
        for (number, stage, state), known in self.facts.items():
            if (number, stage) != (self.second.begin, effects):
                continue
            if self.acceptance.accepts(state, self.first, self.second):
                self.solver.add(self.z3.Implies(known, one < two))
        for final in self.graph.finals.get(self.second.number, ()):
            if self._covers(final) and self.acceptance.accepts(
                final.state, self.first, self.second
            ):
                self._imply(final.rule, None, one < two)
