"""The axioms of the PTX memory model (PTX ISA §8.10), one row each.

An axiom says that some relation of an execution is irreflexive or acyclic. The relations are
built with operators only (`|`, `&`, `-`, `@` composition, `~` inverse), so that each engine
interprets the same text: the enumerator with bit sets (`relations.py`), the solver with matrices of
Booleans (`smt.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol


class Execution(Protocol):
    """What an axiom may ask. Events are memory accesses, and initial writes.

    Any: the relation type of the engine.

    An atomic is one event, a read and then a write: it may be from-read to a write that is
    co-before it. `fr - ~co` leaves such pairs out, which are the business of atomicity.

    - `rf`: a write to the reads of its value. `co`: coherence order, transitive; it contains what
      causality and moral strength force (§8.9.6). `fr`: a read to the writes that are co-after
      what it read.
    - `base`: proxy-preserved base causality (§8.9.5). `cause`: causality order, which is `base`, or
      observation and then `base`. An atomic is one event; observation starts from what it writes,
      so as a read it is before another access in `base` only.
    - `strong`: morally strong pairs (§8.7). `po_loc`: program order on overlapping addresses.
    - `dep`: a read to the writes whose value, address or execution depends on it. An atomic is
      related to itself if what it writes depends on what it reads.
    - `sc`: fence.sc order; `sc_cause`: base causality among the fences.sc. (Both over fences.)
    """

    rf: Any
    co: Any
    fr: Any
    base: Any
    cause: Any
    strong: Any
    po_loc: Any
    dep: Any
    sc: Any
    sc_cause: Any


@dataclass(frozen=True)
class Axiom:
    """`demand`: "irreflexive" or "acyclic". `about`: "order" when it does not need co, "fences"
    for the order of fences, "location" when it speaks of each location by itself."""

    name: str
    section: str
    demand: str
    about: str
    relation: Callable[[Any], Any]
    """Of an `Execution`, or of the part of one that axioms about `about` ask for."""
    says: str


_TABLE: tuple[Axiom, ...] = (
    Axiom(
        "no-thin-air", "PTX §8.10.4", "acyclic", "order",
        lambda x: x.rf @ x.dep,
        "no value justifies itself through dependencies and communication",
    ),
    Axiom(
        "fence-sc", "PTX §8.10.2", "irreflexive", "fences",
        lambda x: x.sc @ x.sc_cause,
        "fence.sc order does not contradict causality",
    ),
    Axiom(
        "coherence", "PTX §8.10.1", "irreflexive", "location",
        lambda x: x.co,
        "a write that precedes another of its location in causality precedes it in coherence order",
    ),
    Axiom(
        "atomicity", "PTX §8.10.3", "irreflexive", "location",
        lambda x: (x.strong & x.fr) @ x.co,
        "no morally strong write comes between what an atomic reads and what it writes",
    ),
    Axiom(
        "sc-per-location", "PTX §8.10.5", "acyclic", "location",
        lambda x: x.po_loc | (x.strong & (x.rf | x.co | (x.fr - ~x.co))),
        "program order and morally strong communication of one location have no cycle",
    ),
    Axiom(
        "causality", "PTX §8.10.6", "irreflexive", "location",
        lambda x: (x.rf @ x.base) | (x.fr @ x.cause),
        "a read sees no write that it is before, and none that was overwritten before it",
    ),
)  # fmt: skip


class AxiomTable:
    """The rows by name. Tests remove one and see a verdict change."""

    def __init__(self, axioms: Iterable[Axiom] = _TABLE) -> None:
        self.axioms = tuple(axioms)

    def without(self, *names: str) -> AxiomTable:
        return AxiomTable(axiom for axiom in self.axioms if axiom.name not in names)

    def __contains__(self, name: str) -> bool:
        return any(axiom.name == name for axiom in self.axioms)

    def about(self, what: str) -> tuple[Axiom, ...]:
        return tuple(axiom for axiom in self.axioms if axiom.about == what)


AXIOMS = AxiomTable()
