"""The vocabulary of cycles: edges between two events, and annotations of events, by their spelling.

The words are diy's (herdtools7) where it has them: `Rfe`, `PodWR`, `DpDatadW`, `Rel.gpu`. What PTX
adds is spelled in the same way: what stands between the two events, then `s` or `d` (same or
different location) and the directions, as in `Fence.sc.gpudWR` or `Mbar.release.acquire.ctasWR`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from ...model.program import InputError

SCOPES = ("cta", "cluster", "gpu", "sys")
_COMMUNICATION = {"Rf": ("W", "R"), "Fr": ("R", "W"), "Co": ("W", "W"), "Ws": ("W", "W")}


@dataclass(frozen=True)
class Edge:
    """From a `source` (R or W) to a `target`; `moves` to another location or stays at the same.

    `relation` is rf, fr or co for communication. Otherwise `steps` stand between the events
    (none: program order alone), or the target depends on the source by `dependency`.
    """

    text: str
    source: str
    target: str
    moves: bool = False
    external: bool = False
    relation: str = ""
    steps: tuple[str, ...] = ()
    dependency: str = ""

    @property
    def word(self) -> str:
        """What stands on the thread, as test names say it."""
        if self.dependency:
            return self.dependency.lower()
        if self.relation or not self.steps:
            return self.text.lower() if self.relation else ("po" if self.moves else "pos")
        return "-".join(step.lower() for step in self.steps)


@dataclass(frozen=True)
class Mark:
    """The annotation of an event: which instruction does the access.

    `kind`: access (ld, st), atom, red, tcgen05 (ld, st), mma, mma.acc, cp, tma, tma.store.
    `view` is the proxy or alias that it goes through.
    """

    text: str = "Weak"
    kind: str = "access"
    sem: str = "weak"
    scope: str = ""
    operation: str = ""
    view: str = ""

    @property
    def both(self) -> bool:
        """A read-modify-write: a read and a write of the cycle at once."""
        return self.kind in ("atom", "mma.acc")

    @property
    def tensor(self) -> bool:
        return self.kind in ("tcgen05", "mma", "mma.acc", "cp")

    @property
    def strength(self) -> str:
        """The modifiers of ld and st: `.relaxed.gpu`, `.volatile`, `.weak`."""
        return f".{self.sem}.{self.scope}" if self.scope else f".{self.sem}"

    @property
    def returns(self) -> bool:
        """As a read, it leaves the value in a register."""
        return self.kind in ("access", "atom", "tcgen05")


PLAIN = Mark()

# --- what may stand between two events --------------------------------------------------------

_FENCES = {
    f"Fence.{sem}.{scope}": f"fence.{sem}.{scope}"
    for sem in ("sc", "acq_rel", "acquire", "release")
    for scope in SCOPES
}
_PROXIES = (
    "generic", "surface", "texture", "constant", "alias",
    "async", "async.global", "async.shared::cta", "async.shared::cluster",
)  # fmt: skip
IN_THREAD = {
    **_FENCES,
    **{f"Fence.proxy.{proxy}": f"fence.proxy.{proxy}" for proxy in _PROXIES},
    "Wait::ld": "tcgen05.wait::ld",
    "Wait::st": "tcgen05.wait::st",
    "Before": "tcgen05.fence::before_thread_sync",
    "After": "tcgen05.fence::after_thread_sync",
    "Bulk": "cp.async.bulk.commit_group\ncp.async.bulk.wait_group 0",
    "Bulk.read": "cp.async.bulk.commit_group\ncp.async.bulk.wait_group.read 0",
}
"""Steps of one thread, with their instructions."""

BARRIERS = ("BarSync", "BarArrive", "BarWarp", "ClusterSync", "ClusterSync.relaxed")
_WAITS = tuple(f"{sem}.{scope}" for sem in ("acquire", "relaxed") for scope in ("cta", "cluster"))
MBARRIERS = tuple(f"Mbar.{arrive}.{wait}" for arrive in ("release", "relaxed") for wait in _WAITS)
COMPLETIONS = tuple(f"{name}.{wait}" for name in ("Commite", "Tmae") for wait in _WAITS)
"""Completion of tcgen05 (a commit) or of a TMA load, seen by the next thread."""
OWN_COMPLETIONS = tuple(f"{name}.{wait}" for name in ("Commiti", "Tmai") for wait in _WAITS)
"""The same, seen by the thread itself."""

HAND_OFFS = (*BARRIERS, *MBARRIERS, *COMPLETIONS)
STEPS = (*IN_THREAD, *OWN_COMPLETIONS, *HAND_OFFS)
_SHORT = {"Mbar": "Mbar.release.acquire.cta", "Fence.SC": "Fence.sc.gpu"} | {
    name: f"{name}.acquire.cta" for name in ("Commite", "Commiti", "Tmae", "Tmai")
}


# --- edges ------------------------------------------------------------------------------------


def edge(word: str) -> Edge | None:
    """The edge of this spelling; None if it is none."""
    return _communication(word) or _dependency(word) or _between(word)


def _communication(word: str) -> Edge | None:
    relation, side = word[:2], word[2:]
    if relation not in _COMMUNICATION or side not in ("e", "i"):
        return None
    source, target = _COMMUNICATION[relation]
    name = "Co" if relation == "Ws" else relation
    return Edge(f"{name}{side}", source, target, external=side == "e", relation=name.lower())


def _dependency(word: str) -> Edge | None:
    found = re.fullmatch(r"Dp(Addr[sd][RW]|Data[sd]W|Ctrl[sd][RW])", word)
    if not found:
        return None
    kind, side, target = found[1][:-2], found[1][-2], found[1][-1]
    return Edge(word, "R", target, moves=side == "d", dependency=kind)


def _between(word: str) -> Edge | None:
    found = re.fullmatch(r"(.+)([sd])([RW])([RW])", word)
    if not found:
        return None
    steps = () if found[1] == "Po" else tuple(_SHORT.get(s, s) for s in found[1].split("+"))
    if any(step not in STEPS for step in steps):
        return None
    text = "+".join(steps or ("Po",)) + found[2] + found[3] + found[4]
    hand_offs = sum(step in HAND_OFFS for step in steps)
    if hand_offs > 1:
        raise InputError(f"{word}: an edge goes to the next thread once; put an event between")
    moves = found[2] == "d"
    return Edge(text, found[3], found[4], moves, external=bool(hand_offs), steps=steps)


# --- annotations ------------------------------------------------------------------------------

_VIEWS = {"Surf": "surface", "Tex": "texture", "Const": "constant", "Alias": "alias"}
_SEMS = {"Rlx": "relaxed", "Rel": "release", "Acq": "acquire", "AcqRel": "acq_rel"}
_SIMPLE = {
    "Weak": PLAIN,
    "Volatile": Mark("Volatile", sem="volatile"),
    "Mmio": Mark("Mmio", sem="mmio.relaxed", scope="sys"),
    "Tcgen05": Mark("Tcgen05", "tcgen05"),
    "Mma": Mark("Mma", "mma"),
    "Mma.acc": Mark("Mma.acc", "mma.acc"),
    "Cp": Mark("Cp", "cp"),
    "Tma": Mark("Tma", "tma"),
    "Tma.store": Mark("Tma.store", "tma.store"),
    **{word: Mark(word, view=view) for word, view in _VIEWS.items()},
}
_ATOMIC = re.compile(
    r"(Amo|Red)\.(add|exch|cas|max)(?:\.(Rlx|Rel|Acq|AcqRel)\.(cta|cluster|gpu|sys))?"
)
_ORDERED = re.compile(r"(?:(Surf|Tex|Const|Alias)\.)?(Rlx|Rel|Acq)\.(cta|cluster|gpu|sys)")


def mark(word: str) -> Mark | None:
    """The annotation of this spelling; None if it is none."""
    if word in _SIMPLE:
        return _SIMPLE[word]
    if found := _ATOMIC.fullmatch(word):
        family, operation, sem, scope = found.groups()
        if family == "Red" and operation in ("exch", "cas"):
            raise InputError(f"{word}: red has no {operation}; Amo.{operation} is atom.{operation}")
        kind = "atom" if family == "Amo" else "red"
        return Mark(word, kind, _SEMS[sem or "Rlx"], scope or "gpu", operation)
    if found := _ORDERED.fullmatch(word):
        view, sem, scope = found.groups()
        return Mark(word, "access", _SEMS[sem], scope, view=_VIEWS.get(view, ""))
    return None


# --- a list of both ---------------------------------------------------------------------------


def read_words(words: Sequence[str]) -> tuple[list[Edge], list[Mark]]:
    """The edges, and the annotation of the event that each starts from.

    An annotation stands between two edges and is the event's there; one at either end of the list
    is that of the event where the cycle closes.
    """
    edges: list[Edge] = []
    marks: dict[int, Mark] = {}
    for word in (part for entry in words for part in entry.split()):
        if (note := mark(word)) is not None:
            if len(edges) in marks:
                raise InputError(f"{word}: the event has an annotation: {marks[len(edges)].text}")
            marks[len(edges)] = note
        elif (found := edge(word)) is not None:
            edges.append(found)
        else:
            raise InputError(_unknown(word))
    return edges, _closed(marks, len(edges))


def _closed(marks: dict[int, Mark], count: int) -> list[Mark]:
    if count in marks and 0 in marks and count:
        raise InputError(
            f"{marks[0].text} before the first edge and {marks[count].text} after the last are "
            "for one event: the cycle closes there"
        )
    last = marks.get(count, PLAIN)
    return [marks.get(index, last if index == 0 else PLAIN) for index in range(count)]


def vocabulary() -> list[str]:
    """Every word, for suggestions and for the reference."""
    sides = [a + b for a in "RW" for b in "RW"]
    words = [name + side for name in _COMMUNICATION for side in "ei"]
    words += [f"{step}{at}{side}" for step in ("Po", *STEPS) for at in "sd" for side in sides]
    words += [f"DpData{at}W" for at in "sd"]
    words += [f"Dp{kind}{at}{to}" for kind in ("Addr", "Ctrl") for at in "sd" for to in "RW"]
    words += [*_SIMPLE, *(f"{sem}.{scope}" for sem in ("Rlx", "Rel", "Acq") for scope in SCOPES)]
    return words + ["Amo.add", "Amo.exch", "Amo.cas", "Amo.max", "Red.add", "Red.max"]


def _unknown(word: str) -> str:
    near = get_close_matches(word, vocabulary(), 1, 0.6)
    hint = f"; did you mean {near[0]}?" if near else "; see docs/diy.md for the words"
    return f"{word} is no edge and no annotation{hint}"
