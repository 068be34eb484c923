"""An execution as a picture: lettered events and edges of the kinds that herd draws."""

from __future__ import annotations

from collections.abc import Iterator
from string import ascii_lowercase

from .. import instructions as ins
from ..graph import AccessEvent
from ..instructions import Access, Pool, Proxy, Role, Scope, Sem
from ..run import Where
from .candidates import Candidate
from .code import State
from .location import LocationJudge
from .outcome import EdgeView, EventView, Picture
from .relations import Relation

_SEM = {
    Sem.RELAXED: "rlx", Sem.ACQUIRE: "acq", Sem.RELEASE: "rel", Sem.ACQ_REL: "acq_rel",
}  # fmt: skip


class Letters:
    """Names for the events of a candidate: its steps in the order of the threads, an access of an
    asynchronous operation by itself, then the initial writes by their location."""

    def __init__(self, candidate: Candidate) -> None:
        self.candidate = candidate
        self.skeleton = candidate.setting.skeleton
        self.of_event: dict[int, str] = {}
        self.of_step: dict[Where, str] = {}
        self.views: list[EventView] = []
        self._count = 0
        by_step: dict[Where, list[AccessEvent]] = {}
        for event in self.skeleton.accesses:
            if event.access.role in (Role.READ, Role.WRITE, Role.ATOMIC):
                by_step.setdefault(event.where, []).append(event)
        for index, agent in enumerate(self.skeleton.run.program.agents):
            for number, step in enumerate(agent.steps):
                where = Where(index, number)
                if not isinstance(step.instruction, (ins.Use, ins.Compute)):
                    self._step(where, by_step.get(where, []))
        for word in self.skeleton.words:
            self.of_event[self.skeleton.initial[word.word]] = f"{word.memory}0"
            label = f"W[{word.memory}]={word.initial}"
            self.views.append(EventView(f"{word.memory}0", -1, -1, "initial value", label))

    def _letter(self) -> str:
        number, self._count = self._count, self._count + 1
        return f"{ascii_lowercase[number % 26]}{number // 26 or ''}"

    def _step(self, where: Where, events: list[AccessEvent]) -> None:
        done = self.candidate.traces[where.agent].steps[where.step]
        plain = len(events) == 1 and events[0].pool is Pool.GENERIC
        label = self._label(events[0]) if plain else done.instruction.text
        letter = self.of_step[where] = self._letter()
        line = done.act.place.line
        self.views.append(EventView(letter, *where, done.act.text, label, line))
        for event in events:
            if plain:
                self.of_event[event.number] = letter
                continue
            own = self.of_event[event.number] = self._letter()
            text = f"{done.act.text}: {event.access.operand}"
            self.views.append(EventView(own, *where, text, self._label(event), line))

    def _label(self, event: AccessEvent) -> str:
        """`Rrlx.gpu[x]=1`, as herd writes it."""
        done = self.candidate.traces[event.where.agent].steps[event.where.step]
        reads, writes = self.skeleton.events_of[event.where]
        access = event.access
        kind = {Role.READ: "R", Role.WRITE: "W"}.get(access.role, "RMW")
        values = []
        if event.number in reads:
            values.append(str(done.reads[reads.index(event.number)]))
        if event.number in writes:
            values.append(str(done.writes[writes.index(event.number)]))
        name = access.address or access.region.array
        order = _order(done.instruction, access)
        return f"{kind}{order}[{name}]={'->'.join(values)}"


def _order(instruction: ins.Instruction, access: Access) -> str:
    proxy = "" if access.proxy in (Proxy.GENERIC, Proxy.TMEM) else access.proxy.value
    sem = _SEM.get(getattr(instruction, "sem", Sem.WEAK), "")
    if not sem or not isinstance(instruction, (ins.Load, ins.Store, ins.Atomic)):
        return proxy
    scope: Scope = instruction.scope
    return f"{proxy}{sem}.{scope.name.lower()}"


def picture(candidate: Candidate, judge: LocationJudge, state: State) -> Picture:
    """A consistent execution."""
    letters = Letters(candidate)
    co = judge.some_order(candidate)
    edges = (*_program_order(letters), *_communication(letters, co), *synchronization(letters))
    return Picture(used(letters, edges), edges, _named(state))


def used(letters: Letters, edges: tuple[EdgeView, ...]) -> tuple[EventView, ...]:
    """All events of threads, and the initial writes that some edge starts from."""
    ends = {edge.source for edge in edges} | {edge.target for edge in edges}
    return tuple(view for view in letters.views if view.thread >= 0 or view.letter in ends)


def _named(state: State) -> tuple[tuple[str, int], ...]:
    return tuple((str(each), value) for each, value in state.items())


def execution_edges(letters: Letters, co: Relation) -> tuple[EdgeView, ...]:
    """po, rf, co, fr, sync and async edges."""
    return (*_program_order(letters), *_communication(letters, co), *synchronization(letters))


def _program_order(letters: Letters) -> Iterator[EdgeView]:
    """Steps of a thread in order; from the issue of an asynchronous operation to its accesses."""
    last: dict[int, str] = {}
    for where, letter in sorted(letters.of_step.items()):
        if where.agent in last:
            yield EdgeView("po", last[where.agent], letter)
        last[where.agent] = letter
    for event in letters.skeleton.accesses:
        issue, own = letters.of_step.get(event.where), letters.of_event.get(event.number)
        if issue is not None and own is not None and own != issue:
            yield EdgeView("async", issue, own, "issue")


def _communication(letters: Letters, co: Relation) -> Iterator[EdgeView]:
    name = letters.of_event
    for read, write in sorted(letters.candidate.rf.items()):
        yield EdgeView("rf", name[write], name[read])
    for a, b in immediate(co):
        if a in name and b in name:
            yield EdgeView("co", name[a], name[b])
    for read, write in sorted(letters.candidate.rf.items()):
        for a, after in immediate(co):
            if a == write and after != read:
                yield EdgeView("fr", name[read], name[after])


def immediate(relation: Relation) -> list[tuple[int, int]]:
    """The pairs of a transitive relation with nothing in between."""
    between = relation @ relation
    return [(a, b) for a, b in relation.pairs() if not between.rows[a] >> b & 1]


def synchronization(letters: Letters) -> Iterator[EdgeView]:
    """Patterns and fences that synchronize, arrivals and who waited for them."""
    skeleton = letters.skeleton
    nodes = {node: where for where, node in skeleton.graph.issue_of.items()}
    for number in sorted(letters.candidate.ties):
        tie = skeleton.ties[number]
        ends = [letters.of_step.get(nodes[node]) for node in (tie.source, tie.target)]
        if ends[0] is not None and ends[1] is not None:
            yield EdgeView("sync", ends[0], ends[1], tie.label.rule)
    for where, arrivals in sorted(skeleton.blocking.items()):
        for arrival in sorted(set(arrivals)):
            if where in letters.of_step and arrival in letters.of_step and where != arrival:
                rule = _barrier(skeleton.run.step(where).instruction)
                yield EdgeView("sync", letters.of_step[arrival], letters.of_step[where], rule)


def _barrier(instruction: ins.Instruction) -> str:
    if isinstance(instruction, ins.MbarrierTryWait):
        return "mbarrier"
    return "cluster-barrier" if isinstance(instruction, ins.ClusterWait) else "bar-sync"
