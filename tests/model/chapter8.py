"""Chapter 8 of the PTX ISA by brute force: an oracle that shares only the AST with the engines.

Relations are sets of pairs of events, definitions stand in the order of the text, and nothing is
pruned that an axiom does not forbid. In its domain are generic accesses, atomics, fences, CTA
barriers, and the surface, texture, constant and alias proxies; loops, mbarriers and asynchronous
operations raise `OutOfDomain`. Where the text is open, a comment with `OPEN` says what is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, islice, pairwise, product
from typing import NamedTuple

from chapter8_threads import (
    INIT,
    Event,
    OutOfDomain,
    Run,
    barrier_groups,
    initial_writes,
    run_threads,
)
from lastread.model.axiomatic.code import Final, Test, holds
from lastread.model.instructions import Proxy, Scope

__all__ = ["Answer", "OutOfDomain", "answer"]

Pair = tuple[Event, Event]
Rel = frozenset[Pair]
State = tuple[int, ...]


class Answer(NamedTuple):
    """Values of `Test.observed` that a run can end with, and whether a consistent run races."""

    states: frozenset[State]
    races: bool


# --- relations ------------------------------------------------------------------------------------


def seq(*relations: Iterable[Pair]) -> Rel:
    """r1 ; r2 ; ..."""
    result = frozenset(relations[0])
    for relation in relations[1:]:
        after: dict[Event, set[Event]] = {}
        for a, b in relation:
            after.setdefault(a, set()).add(b)
        result = frozenset((a, c) for a, b in result for c in after.get(b, ()))
    return result


def plus(relation: Iterable[Pair]) -> Rel:
    """Transitive closure."""
    result = frozenset(relation)
    while True:
        more = result | seq(result, result)
        if more == result:
            return result
        result = more


def acyclic(relation: Iterable[Pair]) -> bool:
    return all(a != b for a, b in plus(relation))


# --- candidate executions: who reads from whom ----------------------------------------------------

Source = dict[Event, Event]


def sources(test: Test) -> Iterator[tuple[Run, Source]]:
    """Every way to give each executed read a write of its memory, values following.

    A read that a branch or an address waits for is given its write first; that all of them can
    be is No-Thin-Air (§8.10.4), and so is that no value waits for itself in the end.
    """
    seen: set[frozenset[tuple[Event, Event]]] = set()
    todo: list[Source] = [{}]
    while todo:
        source = todo.pop()
        run = run_threads(test, source)
        waiting = [event for event in run.events if event.kind == "R" and event not in source]
        if not waiting:
            if run.finished and all(run.value(event) is not None for event in source):
                yield run, source
            continue
        for read in waiting if run.blocked else waiting[:1]:
            for write in (*run.events, *initial_writes(test)):
                if write.kind == "W" and write.memory == read.memory and write != read.partner:
                    chosen = {**source, read: write}
                    key = frozenset(chosen.items())
                    if key not in seen:
                        seen.add(key)
                        todo.append(chosen)


# --- §8.5 to §8.8: scopes, moral strength, patterns -----------------------------------------------


def includes(a: Event, b: Event) -> bool:
    """The scope of `a` includes the thread of `b` (§8.5)."""
    return (
        a.scope is Scope.SYS
        or (a.scope is Scope.GPU and a.gpu == b.gpu)
        or (a.scope is Scope.CLUSTER and a.cluster == b.cluster)
        or (a.scope is Scope.CTA and a.cta == b.cta)
    )


def same_place(a: Event, b: Event) -> bool:
    """Complete overlap (§8.2.3, which asks for the same virtual address)."""
    return a.memory == b.memory and a.address == b.address


def same_object(a: Event, b: Event) -> bool:
    """Both are on the M of a pattern. OPEN: §8.8 does not ask for one proxy; taken as if it did,
    which orders less: a store by another proxy may overtake the release before it."""
    return same_place(a, b) and a.proxy is b.proxy


def morally_strong(a: Event, b: Event) -> bool:
    """§8.7."""
    if INIT in (a.seat, b.seat) or a == b:
        return False
    if a.seat != b.seat and not (includes(a, b) and includes(b, a)):
        return False
    if not (a.memory and b.memory):  # OPEN: taken as no fence being performed via a proxy.
        return True
    return a.proxy is b.proxy and same_place(a, b)


def po(a: Event, b: Event) -> bool:
    """Program order; the read of an atomic before its write."""
    return a.seat == b.seat != INIT and (a.step, a.kind == "W") < (b.step, b.kind == "W")


def release_patterns(events: Iterable[Event]) -> Iterator[Pair]:
    """First operation and strong write of each release pattern (§8.8)."""
    for first, write in product(events, events):
        if write.kind != "W" or write.scope is None or not first.releases:
            continue
        on_it = first.kind == "W" and same_object(first, write)
        if first == write or po(first, write) and (first.kind == "F" or on_it):
            yield first, write


def acquire_patterns(events: Iterable[Event]) -> Iterator[Pair]:
    """Strong read and last operation of each acquire pattern (§8.8); not from red (§8.11.1)."""
    for read, last in product(events, events):
        if read.kind != "R" or read.scope is None or read.red or not last.acquires:
            continue
        on_it = last.kind == "R" and not last.red and same_object(read, last)
        if read == last or po(read, last) and (last.kind == "F" or on_it):
            yield read, last


# --- §8.9: orders of an execution -----------------------------------------------------------------


@dataclass(frozen=True)
class Execution:
    """Events with reads-from, a grouping of the barriers and a Fence-SC order."""

    isa: str
    events: tuple[Event, ...]
    source: Source
    groups: Rel
    sc: Rel

    def relation(self, holds_for: Callable[[Event, Event], bool]) -> Rel:
        return frozenset(pair for pair in product(self.events, self.events) if holds_for(*pair))

    def observation(self) -> Rel:
        """§8.9.2: through any number of atomics."""
        reads = [(w, r) for r, w in self.source.items() if morally_strong(w, r)]
        steps: Rel = frozenset(reads)
        atomics = frozenset((e, e.partner) for e in self.events if e.kind == "R" and e.partner)
        through = plus(seq(steps, atomics))
        return steps | seq(through, steps)

    def synchronizes(self) -> Rel:
        """§8.9.4."""
        seen = self.observation()
        patterns = frozenset(
            (first, last)
            for first, write in release_patterns(self.events)
            for read, last in acquire_patterns(self.events)
            if (write, read) in seen and morally_strong(first, last)
        )
        return patterns | self.groups | self.sc

    def base(self) -> Rel:
        """Base causality order (§8.9.5). In ISA 6.0 program order alone is not part of it."""
        order, sync = self.relation(po), self.synchronizes()
        if self.isa != "6.0":
            return plus(order | sync)
        return plus(sync | seq(order, sync) | seq(sync, order) | seq(order, sync, order))

    def causality(self, base: Rel) -> Rel:
        """§8.9.5: after an observation once, or not."""
        kept = self.preserved(base) if self.isa != "6.0" else base
        return kept | seq(self.observation(), kept)

    def preserved(self, base: Rel) -> Rel:
        """Proxy-preserved base causality (§8.9.5, with the cases of NVlabs/mixedproxy)."""
        return frozenset((a, b) for a, b in base if a.memory and self.crosses(base, a, b))

    def crosses(self, base: Rel, a: Event, b: Event) -> bool:
        if a.memory != b.memory:
            return False
        alias = a.address != b.address
        if not alias and a.proxy is b.proxy and a.cta == b.cta:
            return True
        stops: list[Callable[[Event], bool]] = []
        if a.proxy is not Proxy.GENERIC:
            stops.append(lambda f: f.crosses is a.proxy and f.cta == a.cta)
        if alias:
            stops.append(lambda f: f.crosses == "alias")
        if b.proxy is not Proxy.GENERIC:
            stops.append(lambda f: f.crosses is b.proxy and f.cta == b.cta)
        fences = [f for f in self.events if f.crosses]
        return any(
            all(pair in base for pair in pairwise((a, *path, b)))
            for path in product(*([f for f in fences if stop(f)] for stop in stops))
        )


def fence_orders(events: Iterable[Event]) -> Iterator[Rel]:
    """Fence-SC orders (§8.9.3): acyclic, of every morally strong pair."""
    fences = [event for event in events if event.sc]
    pairs = [pair for pair in combinations(fences, 2) if morally_strong(*pair)]
    for chosen in product(*((pair, pair[::-1]) for pair in pairs)):
        if acyclic(chosen):
            yield frozenset(chosen)


# --- §8.10: axioms --------------------------------------------------------------------------------


def consistent(execution: Execution, cause: Rel, mine: list[Event]) -> Iterator[list[Event]]:
    """The coherence-maximal writes of each coherence order of one memory that the axioms allow."""
    order = frozenset(p for p in product(mine, mine) if po(*p) and morally_strong(*p))
    writes = [event for event in mine if event.kind == "W"]
    ways = [ways for pair in combinations(writes, 2) if (ways := directions(cause, *pair))]
    for chosen in product(*ways):
        co = plus(pair for way in chosen for pair in way)
        if all(a != b for a, b in co) and allowed(execution, cause, co, order, mine):
            yield [w for w in writes if not any(a == w for a, _ in co)]


def directions(cause: Rel, a: Event, b: Event) -> tuple[tuple[Pair, ...], ...]:
    """How coherence (§8.9.6) may relate two writes, by causality where that says (§8.10.1)."""
    if a.seat == INIT:
        return (((a, b),),)
    caused = tuple(pair for pair in ((a, b), (b, a)) if pair in cause)
    if caused:
        return (caused,)
    return (((a, b),), ((b, a),)) if morally_strong(a, b) else ()


def allowed(execution: Execution, cause: Rel, co: Rel, order: Rel, mine: list[Event]) -> bool:
    reads = [event for event in mine if event.kind == "R"]
    rf = frozenset((execution.source[read], read) for read in reads)
    fr = seq(((read, write) for write, read in rf), co)
    return atomicity(fr, co, reads) and per_location(order, rf | co | fr) and causal(rf | fr, cause)


def atomicity(fr: Rel, co: Rel, reads: list[Event]) -> bool:
    """§8.10.3: no morally strong write between what an atomic reads and what it writes."""
    return not any(
        (read, write) in fr and morally_strong(read, write) and morally_strong(write, other)
        for read in reads
        if read.partner
        for write, other in co
        if other == read.partner
    )


def per_location(order: Rel, communication: Rel) -> bool:
    """§8.10.5. OPEN: program order between overlapping accesses by different proxies or
    addresses; the text speaks of sets of pairwise morally strong operations, so it is left out."""
    return acyclic(order | {pair for pair in communication if morally_strong(*pair)})


def causal(read_or_before: Rel, cause: Rel) -> bool:
    """§8.10.6: a read neither reads from what it precedes nor misses what precedes it."""
    return not any((b, a) in cause for a, b in read_or_before)


def fence_sc(execution: Execution, base: Rel) -> bool:
    """§8.10.2."""
    return not any((b, a) in base for a, b in execution.sc)


def races(events: Iterable[Event], cause: Rel) -> bool:
    """§8.7.1, of operations: an atomic is one, whichever half is related."""
    steps: dict[tuple[int, int], list[Event]] = {}
    for event in events:
        if event.memory:
            steps.setdefault((event.seat, event.step), []).append(event)
    return any(
        a[0].memory == b[0].memory
        and any(event.kind == "W" for event in (*a, *b))
        and not morally_strong(a[0], b[0])
        and not any((x, y) in cause or (y, x) in cause for x, y in product(a, b))
        for a, b in combinations(steps.values(), 2)
    )


# --- the answer -----------------------------------------------------------------------------------


def executions(test: Test, isa: str) -> Iterator[tuple[Run, Execution]]:
    """Finished candidates with everything but coherence chosen."""
    for run, source in sources(test):
        for groups in barrier_groups(test, run):
            for sc in fence_orders(run.events):
                yield run, Execution(isa, run.events, source, groups, sc)


def endings(test: Test, run: Run, execution: Execution, cause: Rel) -> Iterator[State]:
    """Final states of one candidate: none when an axiom forbids it."""
    maximal: dict[str, set[int]] = {}
    memories = dict.fromkeys(location.memory for location in test.locations)
    for memory in memories:
        mine = [e for e in (*initial_writes(test), *run.events) if e.memory == memory]
        found = consistent(execution, cause, mine)
        maximal[memory] = {run.known(write) for ends in found for write in ends}
    for values in product(*maximal.values()):
        final = dict(zip(memories, values, strict=True))
        yield tuple(
            final[test.named[q.location].memory]
            if isinstance(q, Final)
            else run.register(q.thread, q.register)
            for q in test.observed
        )


def plain(event: Event) -> bool:
    """No proxy matters to it: generic, by the first address of its memory."""
    return not event.crosses and event.proxy is Proxy.GENERIC and event.address == event.memory


def answer(test: Test, isa: str, most: int = 100_000) -> Answer:
    """All final states, and whether an execution that ends in one has a data race.

    A test with more than `most` candidates is out of the domain: it would take too long.
    """
    states: set[State] = set()
    racy = False
    candidates = list(islice(executions(test, isa), most + 1))
    if len(candidates) > most:
        raise OutOfDomain("too many candidates")
    for run, execution in candidates:
        if isa == "6.0" and not all(map(plain, run.events)):
            raise OutOfDomain("ISA 6.0 has no proxies")
        base = execution.base()
        if not fence_sc(execution, base):
            continue
        cause = execution.causality(base)
        found = {
            state
            for state in endings(test, run, execution, cause)
            if holds(test.filter, dict(zip(test.observed, state, strict=True)))
        }
        states |= found
        racy = racy or bool(found) and races(run.events, cause)
    return Answer(frozenset(states), racy)
