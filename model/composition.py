"""How order composes along a path: the second table.

Order is not plain reachability. We follow one access: it is *pending* until a COVER rule completes
it; from then on it is *performed*, and each edge of the event graph either carries it on or drops
it. What is carried is a `State`: how the access is known at an event. The rows below say which
edge turns which state into which. The engines and the path search all read these rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from .instructions import Proxy, Scope, Sem
from .program import ONE_CLUSTER, Name, Places
from .readings import Reading
from .rules import RuleTable


class Mode(Name):
    """HELD: performed and known to the thread. ARMED: also behind a fence that lets it ride a
    relaxed arrive. FLIGHT: on its way through a barrier. SEEN: observed by a relaxed wait only."""

    HELD = "held"
    ARMED = "armed"
    FLIGHT = "flight"
    SEEN = "seen"


class Origin(Name):
    """Who published it: a thread's arrive, an operation's own completion, or (RIDER) the commit of
    operations that began after it was performed, and so are later in time."""

    THREAD = "thread"
    OWN = "own"
    RIDER = "rider"


class Via(Name):
    """How the thread knows: by its OWN release (one-way: later work may begin before it), because
    it WAITED for its own operation, or because it ACQUIRED the news from another thread."""

    OWN = "own"
    WAITED = "waited"
    ACQUIRED = "acquired"


ALL_CTAS = -1
ProxyFence = tuple[Proxy | None, int]
"""A proxy fence that was passed: whose proxy (None: alias), and in which CTA (ALL_CTAS: counts
anywhere, as the implicit fence of a completed copy does for its own accesses)."""
Chain = tuple[ProxyFence, ...]
LONGEST_CHAIN = 3
"""Leave the first access's proxy, change the address, enter the second's proxy (§8.9.5)."""
NO_FENCES: frozenset[Chain] = frozenset()
IMPLICIT_FENCE: frozenset[Chain] = frozenset((((Proxy.ASYNC, ALL_CTAS),),))


def passed(chains: frozenset[Chain], fence: ProxyFence) -> frozenset[Chain]:
    """The chains of proxy fences on a path, after one more fence. Order matters: the fence of
    the first access's proxy counts before an alias fence, that before the second's proxy."""
    longer = {c + (fence,) for c in chains if c[-1] != fence and len(c) < LONGEST_CHAIN}
    return chains | {(fence,)} | longer


class State(NamedTuple):
    """How one access is known at an event.

    `scope` and `cta` are the publisher's (FLIGHT, SEEN) or the fence's (ARMED); `visible` is the
    scope a write has been performed in (THREAD: for the executing thread only); `fenced` the
    chains of proxy fences that lie on the path, in their order; `piped` marks
    pipelined-before, which is not performed; `note` names a doubt that turns an error into a note;
    `since` is the ISA version that the order needs.
    """

    mode: Mode = Mode.HELD
    origin: Origin = Origin.THREAD
    scope: Scope = Scope.THREAD
    cta: int = 0
    visible: Scope = Scope.SYS
    fenced: frozenset[Chain] = NO_FENCES
    piped: bool = False
    note: str = ""
    via: Via = Via.OWN
    since: str = ""


class Edge(Name):
    """Kinds of edges, and of effects that an instruction has on what its thread knows."""

    PO = "po"
    ISSUE = "issue"  # execution only: an operation completes after its issue
    BEGIN = "begin"  # from a bound to a later operation's accesses
    RIDE = "ride"  # from the beginning of tcgen05 operations to the arrival of their commit
    ARRIVE = "arrive"
    SIGNAL = "signal"
    WAIT = "wait"
    BAR_IN = "bar-in"
    BAR_OUT = "bar-out"
    CLUSTER_IN = "cluster-in"
    CLUSTER_OUT = "cluster-out"
    FENCE_RELEASE = "fence-release"
    FENCE_ACQUIRE = "fence-acquire"
    BEFORE_SYNC = "before-thread-sync"
    AFTER_SYNC = "after-thread-sync"
    PROXY_FENCE = "proxy-fence"
    SYNC = "sync"  # a release pattern to an acquire pattern that observed it, or fence.sc order
    OBSERVE = "observe"  # a strong write to a strong read of its value


class Label(NamedTuple):
    """An edge with what its instruction says: rule name, semantics, scope, CTA."""

    edge: Edge
    rule: str = "po"
    sem: Sem = Sem.WEAK
    scope: Scope = Scope.CTA
    cta: int = 0
    proxy: Proxy | None = Proxy.ASYNC
    """Of a proxy fence; None: fence.proxy.alias."""


DOUBTFUL = ("metal-flags", "pipelined-cp-overlap")
"""Rules whose order is reported as a note, and not granted in a strict reading."""


class Which(Name):
    """Which accesses a row is about: those of tensor memory, the others, or all."""

    ALL = "all"
    TMEM = "tmem"
    OTHER = "other"


@dataclass(frozen=True)
class Context:
    """What a row may ask besides the label and the state."""

    reading: Reading
    rules: frozenset[str]
    places: Places = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, reading: Reading, table: RuleTable, places: Places | None = None) -> Context:
        doubtful = () if reading.doubts == "note" else DOUBTFUL
        return cls(reading, table.names(reading).difference(doubtful), places or {})

    def has(self, rule: str) -> bool:
        return rule in self.rules

    def inclusive(self, a: Scope, cta_a: int, b: Scope, cta_b: int) -> bool:
        """Mutually inclusive scopes of an arrive and a wait, or of fences beside them."""
        if self.distance(cta_a, cta_b) is Scope.CLUSTER and self.has("cta-spans-cluster"):
            return a >= Scope.CTA and b >= Scope.CTA
        return self.meet(a, cta_a, b, cta_b)

    def meet(self, a: Scope, cta_a: int, b: Scope, cta_b: int) -> bool:
        """Mutually inclusive scopes (PTX ISA §8.7): each names the other's thread."""
        return min(a, b) >= self.distance(cta_a, cta_b)

    def distance(self, cta_a: int, cta_b: int) -> Scope:
        """The narrowest scope that holds threads of both CTAs."""
        if cta_a == cta_b:
            return Scope.CTA
        here, there = self.places.get(cta_a, ONE_CLUSTER), self.places.get(cta_b, ONE_CLUSTER)
        if here == there:
            return Scope.CLUSTER
        return Scope.GPU if here[1] == there[1] else Scope.SYS


Step = Callable[[State, Label, Context], State | None]


@dataclass(frozen=True)
class Row:
    """One line of the composition table: on `edge`, accesses of `which` in a `mode` go on as
    `then` says (None: not carried)."""

    name: str
    edge: Edge
    mode: Mode
    then: Step
    which: Which = Which.ALL


def _same(state: State, label: Label, context: Context) -> State | None:
    return state


def _begin(state: State, label: Label, context: Context) -> State | None:
    if not context.has(label.rule):
        return None
    if label.rule == "tcgen05-in-order" and state.via is Via.ACQUIRED:
        return None  # order among the thread's own tcgen05 operations only
    return state


def _hold(state: State, visible: Scope | None = None, via: Via | None = None) -> State:
    return State(
        visible=state.visible if visible is None else max(state.visible, visible),
        fenced=state.fenced,
        piped=state.piped,
        note=state.note,
        via=state.via if via is None else via,
        since=state.since,
    )


def _ride(state: State, label: Label, context: Context) -> State | None:
    """Only what the thread has seen performed: a release does not hold later operations back,
    and completion of a group is news for this thread alone. Bytes of a bulk copy carry nothing
    but the copy (§8.9.1.1), so only commits have this edge."""
    private = state.visible is Scope.THREAD
    if state.piped or private or state.via is Via.OWN or not context.has("in-flight"):
        return None
    return _hold(state)._replace(origin=Origin.RIDER)


def _fly(state: State, scope: Scope, cta: int) -> State:
    return State(
        Mode.FLIGHT, Origin.THREAD, scope, cta, max(state.visible, scope), state.fenced,
        state.piped, state.note, since=state.since,
    )  # fmt: skip


def _arrive_held(state: State, label: Label, context: Context) -> State | None:
    return _fly(state, label.scope, label.cta) if label.sem.releases else None


def _arrive_held_tmem(state: State, label: Label, context: Context) -> State | None:
    return _arrive_held(state, label, context) if context.has("completed-rides") else None


def _arrive_armed(state: State, label: Label, context: Context) -> State | None:
    scope = label.scope if label.sem.releases else min(label.scope, state.scope)
    return _fly(state, scope, label.cta)


def _signal(state: State, label: Label, context: Context) -> State | None:
    if not context.has("async-arrive"):
        return None
    return state._replace(mode=Mode.FLIGHT, scope=Scope.CLUSTER, cta=label.cta)


def _wait(state: State, label: Label, context: Context) -> State | None:
    """Observation itself needs mutually inclusive scopes (PTX ISA §8.9.2), also when relaxed."""
    own = state.origin is not Origin.THREAD and context.has("own-effects")
    if not own and not context.inclusive(state.scope, state.cta, label.scope, label.cta):
        return None
    if not label.sem.acquires:
        return state._replace(mode=Mode.SEEN)
    return _hold(state, via=Via.ACQUIRED)


def _bar_in(state: State, label: Label, context: Context) -> State | None:
    return _fly(state, Scope.CTA, label.cta)


def _bar_in_tmem(state: State, label: Label, context: Context) -> State | None:
    return _bar_in(state, label, context) if context.has("completed-rides") else None


def _bar_out(state: State, label: Label, context: Context) -> State | None:
    return _hold(state, via=Via.ACQUIRED)


def _cluster_in(state: State, label: Label, context: Context) -> State | None:
    return _fly(state, Scope.CLUSTER, label.cta) if label.sem.releases else None


def _cluster_in_tmem(state: State, label: Label, context: Context) -> State | None:
    return _cluster_in(state, label, context) if context.has("completed-rides") else None


def _cluster_in_armed(state: State, label: Label, context: Context) -> State | None:
    scope = Scope.CLUSTER if label.sem.releases else min(Scope.CLUSTER, state.scope)
    return _fly(state, scope, label.cta)


def _cluster_out(state: State, label: Label, context: Context) -> State | None:
    if not context.inclusive(state.scope, state.cta, label.scope, label.cta):
        return None
    if not label.sem.acquires:
        return state._replace(mode=Mode.SEEN)
    return _hold(state, via=Via.ACQUIRED)


def _arm(state: State, label: Label, context: Context) -> State | None:
    armed = _hold(state, visible=label.scope)
    return armed._replace(mode=Mode.ARMED, scope=max(state.scope, label.scope))


def _arm_tmem(state: State, label: Label, context: Context) -> State | None:
    return _arm(state, label, context) if context.has("completed-rides") else None


def _before(state: State, label: Label, context: Context) -> State | None:
    if not context.has("before_thread_sync"):
        return None
    return _hold(state)._replace(mode=Mode.ARMED, scope=Scope.SYS)


def _acquire(state: State, label: Label, context: Context) -> State | None:
    own = state.origin is not Origin.THREAD and context.has("own-effects")
    if own or context.inclusive(state.scope, state.cta, label.scope, label.cta):
        return _hold(state, via=Via.ACQUIRED)
    return None


def _after(state: State, label: Label, context: Context) -> State | None:
    return _hold(state, via=Via.ACQUIRED) if context.has("after_thread_sync") else None


def _fence_proxy(state: State, label: Label, context: Context) -> State | None:
    if not context.has(label.rule):
        return None
    return state._replace(fenced=passed(state.fenced, (label.proxy, label.cta)))


def _synchronize(state: State, label: Label, context: Context) -> State | None:
    """Base causality (§8.9.5): what is performed before the first operation of a release pattern
    is before what follows the acquire pattern; the pair's scopes include each other."""
    if not context.has(label.rule):
        return None
    return _hold(state, visible=label.scope, via=Via.ACQUIRED)


def _synchronize_tmem(state: State, label: Label, context: Context) -> State | None:
    return _synchronize(state, label, context) if context.has("completed-rides") else None


def _observe(state: State, label: Label, context: Context) -> State | None:
    """A strong write carries what tcgen05.fence::before_thread_sync put before it (§9.7.18.6.3)."""
    return state._replace(mode=Mode.SEEN, scope=label.scope, cta=label.cta)


M = Mode
ROWS: tuple[Row, ...] = (
    # program order keeps all that a thread knows
    Row("po-held", Edge.PO, M.HELD, _same),
    Row("po-armed", Edge.PO, M.ARMED, _same),
    Row("po-seen", Edge.PO, M.SEEN, _same),
    Row("begin-held", Edge.BEGIN, M.HELD, _begin),
    Row("begin-armed", Edge.BEGIN, M.ARMED, _begin),
    # an asynchronous operation's completion comes after what was performed when it began
    Row("ride-held", Edge.RIDE, M.HELD, _ride),
    Row("ride-armed", Edge.RIDE, M.ARMED, _ride),
    # mbarrier
    Row("arrive-held", Edge.ARRIVE, M.HELD, _arrive_held, Which.OTHER),
    Row("arrive-held-tmem", Edge.ARRIVE, M.HELD, _arrive_held_tmem, Which.TMEM),
    Row("arrive-armed", Edge.ARRIVE, M.ARMED, _arrive_armed),
    Row("signal", Edge.SIGNAL, M.HELD, _signal),
    Row("wait", Edge.WAIT, M.FLIGHT, _wait),
    # execution barriers
    Row("bar-in", Edge.BAR_IN, M.HELD, _bar_in, Which.OTHER),
    Row("bar-in-tmem", Edge.BAR_IN, M.HELD, _bar_in_tmem, Which.TMEM),
    Row("bar-in-armed", Edge.BAR_IN, M.ARMED, _bar_in),
    Row("bar-out", Edge.BAR_OUT, M.FLIGHT, _bar_out),
    Row("cluster-in", Edge.CLUSTER_IN, M.HELD, _cluster_in, Which.OTHER),
    Row("cluster-in-tmem", Edge.CLUSTER_IN, M.HELD, _cluster_in_tmem, Which.TMEM),
    Row("cluster-in-armed", Edge.CLUSTER_IN, M.ARMED, _cluster_in_armed),
    Row("cluster-out", Edge.CLUSTER_OUT, M.FLIGHT, _cluster_out),
    # fences
    Row("fence-arms", Edge.FENCE_RELEASE, M.HELD, _arm, Which.OTHER),
    Row("fence-arms-tmem", Edge.FENCE_RELEASE, M.HELD, _arm_tmem, Which.TMEM),
    Row("fence-rearms", Edge.FENCE_RELEASE, M.ARMED, _arm),
    Row("fence-acquires", Edge.FENCE_ACQUIRE, M.SEEN, _acquire, Which.OTHER),
    Row("before-arms", Edge.BEFORE_SYNC, M.HELD, _before, Which.TMEM),
    Row("after-acquires", Edge.AFTER_SYNC, M.SEEN, _after, Which.TMEM),
    Row("proxy-fence", Edge.PROXY_FENCE, M.HELD, _fence_proxy),
    Row("proxy-fence-armed", Edge.PROXY_FENCE, M.ARMED, _fence_proxy),
    # values: release and acquire patterns on memory, fence.sc order (litmus tests)
    Row("sync-held", Edge.SYNC, M.HELD, _synchronize, Which.OTHER),
    Row("sync-held-tmem", Edge.SYNC, M.HELD, _synchronize_tmem, Which.TMEM),
    Row("sync-armed", Edge.SYNC, M.ARMED, _synchronize),
    Row("observe-armed", Edge.OBSERVE, M.ARMED, _observe, Which.TMEM),
)  # fmt: skip


def _anywhere(chain: Chain) -> Chain:
    return tuple((p, ALL_CTAS if p is Proxy.ASYNC else cta) for p, cta in chain)


class Composition:
    """The rows by edge and mode. States are numbered, since sets of accesses are kept by state."""

    def __init__(self, context: Context, rows: Iterable[Row] = ROWS) -> None:
        self.context = context
        self.rows: dict[tuple[Edge, Mode], list[Row]] = {}
        for row in rows:
            self.rows.setdefault((row.edge, row.mode), []).append(row)
        self.states: list[State] = []
        self._numbers: dict[State, int] = {}

    def number(self, state: State) -> int:
        """A small number that stands for the state (`states[number]` is the state again)."""
        found = self._numbers.get(state)
        if found is None:
            plain = self.plain(state)
            if plain != state:
                found = self._numbers[state] = self.number(plain)
            else:
                found = self._numbers[state] = len(self.states)
                self.states.append(state)
        return found

    def plain(self, state: State) -> State:
        """Where an async proxy fence counts anywhere, it does not matter which CTA's."""
        if state.fenced and self.context.has("proxy-fence-anywhere"):
            return state._replace(fenced=frozenset(map(_anywhere, state.fenced)))
        return state

    def follow(self, label: Label, number: int) -> tuple[tuple[int, Which], ...]:
        """Where a state goes along an edge: new states, each for the accesses it is about."""
        state = self.states[number]
        found = []
        for row in self.rows.get((label.edge, state.mode), ()):
            after = row.then(state, label, self.context)
            if after is not None:
                found.append((self.number(after), row.which))
        return tuple(found)
