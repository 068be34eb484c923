"""The causality engine: one pass over the event graph gives what is ordered in every schedule.

For each access it computes the set of accesses that come before it, and of those only the ones
whose order survives the proxies, scopes and pipes involved. Sets are bit sets, so the pass is
linear in the events. A path for one pair is found again, on demand, as evidence.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from typing import NamedTuple

from .composition import (
    ALL_CTAS,
    ROWS,
    Chain,
    Composition,
    Context,
    Edge,
    Label,
    Mode,
    Row,
    State,
    Via,
    Which,
)
from .graph import AccessEvent, Graph, Injection
from .instructions import Pool, Proxy, Scope
from .pipes import pair
from .readings import ASYNC_READ_DONE, LANES_TOGETHER, WAR_NO_FENCE, Reading

AT_THE_END = frozenset((ASYNC_READ_DONE, WAR_NO_FENCE, LANES_TOGETHER))
CLOCK = 512
"""Nodes between two looks at the clock."""
Bits = dict[int, int]
"""By the number of a state, the accesses known in that state."""


At = tuple[int, int]
"""A node and the number of a state."""


@dataclass(frozen=True)
class Before:
    """The accesses before one access: surely; only with a doubt (notes, by reason); and as
    execution, were it not for a missing proxy fence."""

    surely: int
    doubtful: tuple[tuple[str, int], ...]
    execution: int


class Hop(NamedTuple):
    """One step of a path: at `node` the access is known in the numbered `state`, by `rule`."""

    node: int
    state: int
    rule: str


@dataclass(frozen=True)
class Path:
    """A chain of hops from an access to another; `last` is the rule of the final step."""

    hops: tuple[Hop, ...]
    last: str


class Causality:
    """Order between all accesses of a graph, by the rule and composition tables."""

    def __init__(
        self,
        graph: Graph,
        rows: tuple[Row, ...] = ROWS,
        reading: Reading | None = None,
        in_time: Callable[[], None] = lambda: None,
    ) -> None:
        self.graph = graph
        self.in_time = in_time
        self.rows = rows
        self.sharing = rows is ROWS  # shortcuts below are true of these rows only
        asked = reading or graph.reading
        places = graph.program.places
        self.context = Context.of(asked, graph.table, places)
        self.flow = Context.of(asked.one_pass, graph.table, places)
        self.composition = Composition(self.flow, rows)
        self.masks = {
            Which.ALL: -1,
            Which.TMEM: graph.tmem,
            Which.OTHER: ~graph.tmem,
        }
        self.known: dict[int, Bits] = {}
        self._answers: dict[Label, dict[int, tuple[tuple[int, int], ...]]] = {}
        self._injections: list[tuple[int, Injection]] | None = None
        self._complete = False

    def under(self, reading: Reading) -> Causality:
        """The order of the same graph in a reading with other assumptions, or of another ISA.

        Assumptions about crossing proxies and about lanes, and which tcgen05 pairs the ISA version
        lists, are asked at the second access only, so the pass over the graph is shared.
        """
        changed = self.context.reading.assumptions ^ reading.assumptions
        if not changed <= AT_THE_END or self.flow.reading.isa != reading.one_pass.isa:
            return Causality(self.graph, self.rows, reading, self.in_time)
        self._pass()
        other = copy(self)
        other.context = Context.of(reading, self.graph.table, self.graph.program.places)
        return other

    # --- the pass ----------------------------------------------------------------------------

    def _pass(self) -> None:
        if not self._complete:
            for _ in self._walk():
                pass
            self._complete = True

    def _walk(self) -> Iterator[int]:
        """Fill `known` node by node; yields each node where accesses begin."""
        nodes = self.graph.nodes
        last_use, wanted = self.graph.last_use, self.graph.beginning
        live: list[Bits | None] = [None] * len(nodes)
        for number, node in enumerate(nodes):
            if number % CLOCK == 0:
                self.in_time()
            live[number] = bits = self._at(number, live)
            if number in wanted:
                self.known[number] = bits
                yield number
            for source, _ in node.preds:
                if last_use[source] == number:
                    live[source] = None

    def keeps(self, ordered: list[int]) -> bool:
        """Is every access (by number) still after all those in its set? Stops at the first no."""
        if self._complete:
            return all(
                self._keeps(event, ordered)
                for event in self.graph.accesses
                if ordered[event.number]
            )
        return all(
            self._keeps(event, ordered)
            for node in self._walk()
            for event in self.graph.beginning[node]
            if ordered[event.number]
        )

    def _keeps(self, event: AccessEvent, ordered: list[int]) -> bool:
        earlier = ordered[event.number]
        return not earlier & ~self._before(event, earlier).surely

    def _at(self, number: int, live: list[Bits | None]) -> Bits:
        node = self.graph.nodes[number]
        if self.sharing and len(node.preds) == 1 and not node.injections and not node.effects:
            source, label = node.preds[0]
            known = live[source]
            if not known or label.edge is Edge.PO or self._unchanged(label, known):
                return known or {}  # nothing changes: share the set
        here: Bits = {}
        for source, label in node.preds:
            known = live[source]
            if known:
                answers = self._answers.get(label) or self._answers.setdefault(label, {})
                for state, bits in known.items():
                    steps = answers.get(state)
                    if steps is None:
                        steps = answers[state] = self._follow(label, state)
                    for after, mask in steps:
                        kept = bits & mask
                        if kept:
                            here[after] = here.get(after, 0) | kept
        for injection in node.injections:
            if injection.rule in self.flow.rules:
                state = self.composition.number(injection.state)
                here[state] = here.get(state, 0) | injection.bits
        for label, mask in node.effects:
            here = self._effect(here, label, mask)
        return here

    def _unchanged(self, label: Label, known: Bits) -> bool:
        """A later access begins with all that is held where its bound is."""
        if label.edge is not Edge.BEGIN or label.rule == "tcgen05-in-order":
            return False
        states = self.composition.states
        return label.rule in self.flow.rules and all(
            states[number].mode in (Mode.HELD, Mode.ARMED) for number in known
        )

    def _follow(self, label: Label, state: int) -> tuple[tuple[int, int], ...]:
        """Where a state goes along an edge, with the accesses that go there."""
        steps = self.composition.follow(label, state)
        return tuple((after, self.masks[which]) for after, which in steps)

    def _effect(self, known: Bits, label: Label, mask: int) -> Bits:
        """A fence changes how the accesses of `mask` are known; the others stay as they are."""
        result: Bits = {}
        for state, bits in known.items():
            rest = bits
            for after, which in self.composition.follow(label, state):
                moved = bits & mask & self.masks[which]
                rest &= ~moved
                if moved:
                    result[after] = result.get(after, 0) | moved
            if rest:
                result[state] = result.get(state, 0) | rest
        return result

    # --- what comes before an access ---------------------------------------------------------

    def before(self, event: AccessEvent, among: int = -1) -> Before:
        """Which accesses (of `among`) come before this one."""
        self._pass()
        return self._before(event, among)

    def _before(self, event: AccessEvent, among: int) -> Before:
        surely, execution = 0, 0
        doubts: dict[str, int] = {}
        for state, bits in self._arriving(event, among):
            bits &= ~surely
            ordered = self._in_time(state, bits, event) if bits else 0
            if not ordered:
                continue
            execution |= ordered
            crossed, doubtful = self._across_proxies(state, ordered, event)
            if state.note:
                doubts[state.note] = doubts.get(state.note, 0) | crossed
            else:
                surely |= crossed
            for reason, some in doubtful:
                doubts[reason] = doubts.get(reason, 0) | some
        return Before(surely, tuple(sorted(doubts.items())), execution)

    def _arriving(self, event: AccessEvent, among: int) -> Iterator[tuple[State, int]]:
        """What is known where the access begins, and the order that ends at it."""
        for final in self.graph.finals.get(event.number, ()):
            if final.bits & among and final.rule in self.context.rules:
                yield final.state, final.bits & among
        states = self.composition.states
        for number, bits in self.known.get(event.begin, {}).items():
            if bits & among:
                yield states[number], bits & among

    def _in_time(self, state: State, bits: int, event: AccessEvent) -> int:
        """Ordered as execution: performed, visible here, or pipelined with this access."""
        if state.mode is not Mode.HELD and state.mode is not Mode.ARMED:
            return 0
        if state.since and not self.context.reading.since(state.since):
            return 0
        if state.piped:
            bits &= self._pipelined(event)
        if state.visible is Scope.THREAD:
            bits &= self.graph.reads | self.graph.by_strand.get(event.strand, 0)
        elif state.visible is Scope.CTA and not self.context.has("cta-spans-cluster"):
            bits &= self.graph.reads | self.graph.by_cta.get(event.cta, 0)
        across_lanes = state.via is Via.ACQUIRED and state.visible is not Scope.THREAD
        if not across_lanes and not self.context.has("lanes-run-together"):
            bits &= ~self.graph.other_lanes.get(event.number, 0)
        return bits

    def _pipelined(self, event: AccessEvent) -> int:
        """Accesses of other threads that pair with this one: any thread's up to ISA 9.3, those
        of the same warp since."""
        if event.pool is not Pool.TCGEN05_MMA or event.access.proxy is not Proxy.TMEM:
            return 0
        anywhere = self.context.has("pipelined-across")
        bits = 0
        for other in self.graph.accesses:
            near = anywhere or self._same_warp(other, event)
            if near and other is not event and self._pairs(other, event):
                bits |= 1 << other.number
        return bits

    def _same_warp(self, one: AccessEvent, other: AccessEvent) -> bool:
        a, b = self.graph.run.agent(one.where), self.graph.run.agent(other.where)
        return (a.cta, a.warp) == (b.cta, b.warp)

    def _pairs(self, other: AccessEvent, event: AccessEvent) -> bool:
        there = self.graph.step(other.where).instruction
        here = self.graph.step(event.where).instruction
        return pair(there, other.access, here, event.access, self.context.reading)

    def _across_proxies(
        self, state: State, bits: int, event: AccessEvent
    ) -> tuple[int, list[tuple[str, int]]]:
        """Of `bits`, those whose order crosses to this access's proxy and address (§8.9.5, proxy
        preserved base causality): surely, and with a doubt."""
        here = event.access.proxy
        same = bits & self.graph.by_proxy[here] & self.graph.by_address[event.access.address]
        anywhere = here is Proxy.ASYNC and self.context.has("proxy-fence-anywhere")
        if here is not Proxy.GENERIC and not anywhere:
            same &= self.graph.by_cta.get(event.cta, 0)  # same proxy, same thread block
        crossing = bits & ~same
        if here is Proxy.TMEM or not crossing:
            return bits, []
        surely, state = same, self.composition.plain(state)
        for (proxy, cta, address), group in self.graph.by_view.items():
            some = group & crossing
            if some and self._crosses(state, proxy, cta, address, event):
                surely |= some
                crossing &= ~some
        doubtful = []
        for rule, there, to, reason in (
            ("war-without-proxy-fence", Proxy.GENERIC, Proxy.ASYNC, WAR_NO_FENCE),
            ("async-read-done", Proxy.ASYNC, Proxy.GENERIC, ASYNC_READ_DONE),
        ):
            free = crossing & self.graph.by_proxy[there] & self.graph.reads
            if not free or to is not here or not self.context.has(rule):
                continue
            if reason in self.context.reading.noted:
                doubtful.append((f"needs the assumption {reason}", free))
            else:
                surely |= free
        return surely, doubtful

    def _crosses(
        self, state: State, proxy: Proxy, cta: int, address: str, event: AccessEvent
    ) -> bool:
        """Do the path's proxy fences lead from one view of the bytes to another? The fence of the
        first access's proxy in its CTA, an alias fence, that of the second's proxy in its CTA."""
        if proxy is Proxy.TMEM:
            return True
        anywhere = self.context.has("proxy-fence-anywhere")
        here = event.access.proxy
        tail: Chain = ()
        if here is not Proxy.GENERIC:
            tail = ((here, ALL_CTAS if anywhere and here is Proxy.ASYNC else event.cta),)
        if address != event.access.address:
            tail = ((None, ALL_CTAS), *tail)
        if proxy is Proxy.GENERIC:
            return tail in state.fenced
        chains: set[Chain] = {((proxy, cta), *tail)}
        if proxy is Proxy.ASYNC:
            chains.add(((proxy, ALL_CTAS), *tail))
            if anywhere and here is Proxy.ASYNC:
                chains.add(tail)  # one proxy in all CTAs
        return not chains.isdisjoint(state.fenced)

    # --- the path of one pair ----------------------------------------------------------------

    def path(self, first: AccessEvent, second: AccessEvent) -> Path | None:
        """A shortest chain of rules from `first` to `second`, or None when there is none."""
        self._pass()
        bit = 1 << first.number
        for final in self.graph.finals.get(second.number, ()):
            granted = final.rule in self.context.rules
            if granted and final.bits & bit and self._accepts(final.state, bit, second):
                return Path((), final.rule)
        return self._search(first, second, bit)

    def _accepts(self, state: State, bit: int, event: AccessEvent) -> bool:
        ordered = self._in_time(state, bit, event)
        if not ordered:
            return False
        crossed, doubtful = self._across_proxies(state, ordered, event)
        return bool(crossed or doubtful)

    def _search(self, first: AccessEvent, second: AccessEvent, bit: int) -> Path | None:
        successors = self.graph.successors
        came: dict[At, tuple[At | None, str]] = {}
        far: dict[At, int] = {}  # steps other than program order: few hand-offs read best
        queue: deque[At] = deque()
        for number, injection in self._starts(bit, second.begin):
            start = self.composition.number(injection.state)
            for state in self._through_effects(number, start, bit):
                if (number, state) not in came:
                    came[number, state] = (None, injection.rule)
                    far[number, state] = 0
                    queue.append((number, state))
        done: set[At] = set()
        while queue:
            number, state = queue.popleft()
            if (number, state) in done:
                continue
            done.add((number, state))
            if number == second.begin and self._accepts(
                self.composition.states[state], bit, second
            ):
                return self._unwind(came, (number, state))
            for target, label in successors.get(number, ()):
                if target > second.begin:
                    continue
                for after, which in self.composition.follow(label, state):
                    if not bit & self.masks[which]:
                        continue
                    cost = label.edge is not Edge.PO
                    for final in self._through_effects(target, after, bit):
                        here = (target, final)
                        if far[number, state] + cost < far.get(here, len(self.graph.nodes)):
                            far[here] = far[number, state] + cost
                            came[here] = ((number, state), label.rule)
                            if cost:
                                queue.append(here)
                            else:
                                queue.appendleft(here)
        return None

    def _starts(self, bit: int, limit: int) -> list[tuple[int, Injection]]:
        return [
            (number, injection)
            for number, injection in self.injections()
            if injection.bits & bit and number <= limit
        ]

    def injections(self) -> list[tuple[int, Injection]]:
        if self._injections is None:
            self._injections = [
                (number, injection)
                for number, node in enumerate(self.graph.nodes)
                for injection in node.injections
                if injection.rule in self.flow.rules
            ]
        return self._injections

    def _through_effects(self, number: int, state: int, bit: int) -> list[int]:
        states: Bits = {state: bit}
        for label, mask in self.graph.nodes[number].effects:
            states = self._effect(states, label, mask)
        return list(states)

    def _unwind(
        self,
        came: dict[At, tuple[At | None, str]],
        end: At,
    ) -> Path:
        hops: list[Hop] = []
        at: At | None = end
        while at is not None:
            previous, rule = came[at]
            hops.append(Hop(at[0], at[1], rule))
            at = previous
        hops.reverse()
        return Path(tuple(hops), "")
