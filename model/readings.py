"""Readings: an ISA version plus named assumptions. The PTX text leaves points open; a reading says
how they are taken, and every verdict lists the assumptions that it used."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .program import InputError

ISA_VERSIONS = ("6.0", "7.5", "8.6", "9.1", "9.2", "9.3", "9.4")
DEFAULT_ISA = "9.4"

ACQUIRE_TCGEN05 = "acquire-wait-orders-tcgen05"
COMPLETED_RIDES = "completed-work-rides-happens-before"
OWN_EFFECTS = "own-effects-to-any-acquire"
ASYNC_READ_DONE = "async-read-done-is-enough"
WAR_NO_FENCE = "war-needs-no-proxy-fence"
FENCE_ANYWHERE = "proxy-fence-anywhere-on-path"
REGISTER_USE = "register-use-completes-load"
LANES_TOGETHER = "lanes-run-together"
CTA_SPANS_CLUSTER = "cta-scope-spans-cluster"

ASSUMPTIONS: dict[str, str] = {
    ACQUIRE_TCGEN05: "a successful acquire wait orders the thread's later tcgen05 accesses "
    "(PTX ISA §9.7.18.6.3); without it tcgen05.fence::after_thread_sync is needed",
    COMPLETED_RIDES: "tcgen05 work that has completed needs no tcgen05.fence at a hand-off "
    "(§9.7.18.6.4 shows fences only beside relaxed carriers)",
    OWN_EFFECTS: "complete_tx and tcgen05.commit publish the operation's own effects to any "
    "acquire waiter, whatever its scope, and a commit comes after what was seen performed before "
    "its operations began (§9.7.15.16, §8.9.1.1)",
    ASYNC_READ_DONE: "no proxy fence from an async read that is known to be done to a generic "
    "overwrite (§8.6)",
    WAR_NO_FENCE: "no proxy fence from a generic read to an async overwrite (§8.6)",
    FENCE_ANYWHERE: "a fence.proxy.async counts anywhere on the path, not only in the CTA of the "
    "async operation (§8.9.5 has no clause for it)",
    REGISTER_USE: "an instruction that needs a loaded register completes the tcgen05.ld for its "
    "lane, and PTX order is issue order (hardware scoreboards; §9.7.18.6.4.5 does not grant it)",
    LANES_TOGETHER: "the lanes of a warp advance together (not granted since sm_70, §3.2)",
    CTA_SPANS_CLUSTER: ".cta arrives and waits synchronize CTAs of one cluster (§8.7 says no)",
}


@dataclass(frozen=True)
class Reading:
    """`noted` assumptions hold, but every pair that needs one is reported as a note.

    `dead_load_severity`, `equal_write_severity` and `doubts` (pairs that only a doubtful rule of
    `composition.DOUBTFUL` orders) and `protocol_severity` (a phase that nobody waited for) say
    what is an "error" and what a "note".
    """

    name: str
    isa: str = DEFAULT_ISA
    assumptions: frozenset[str] = frozenset()
    noted: frozenset[str] = frozenset()
    dead_load_severity: str = "note"
    equal_write_severity: str = "error"
    doubts: str = "note"
    protocol_severity: str = "error"

    def holds(self, assumption: str) -> bool:
        return assumption in self.assumptions

    def since(self, version: str) -> bool:
        return ISA_VERSIONS.index(self.isa) >= ISA_VERSIONS.index(version)

    @property
    def one_pass(self) -> Reading:
        """The reading whose graph and pass serve this one: from ISA 9.2 on, versions differ only
        in which pairs are accepted at the end."""
        return replace(self, isa=ISA_VERSIONS[-1]) if self.since("9.2") else self

    def until(self, version: str) -> bool:
        return ISA_VERSIONS.index(self.isa) <= ISA_VERSIONS.index(version)

    def at(self, isa: str) -> Reading:
        """Errors: InputError for a version the model does not know."""
        if isa not in ISA_VERSIONS:
            raise InputError(f"unknown ISA version {isa!r}; known: {', '.join(ISA_VERSIONS)}")
        return replace(self, isa=isa)

    def assume(self, name: str) -> Reading:
        """Adds the assumption `name`, or takes it away when written `no-name`."""
        drop = name.startswith("no-") and name[3:] in ASSUMPTIONS
        plain = name[3:] if drop else name
        if plain not in ASSUMPTIONS:
            raise InputError(f"unknown assumption {name!r}; known: {', '.join(ASSUMPTIONS)}")
        changed = self.assumptions - {plain} if drop else self.assumptions | {plain}
        return replace(self, assumptions=changed, noted=self.noted - {plain})


_PTX = frozenset(
    (ACQUIRE_TCGEN05, COMPLETED_RIDES, OWN_EFFECTS, ASYNC_READ_DONE, WAR_NO_FENCE, FENCE_ANYWHERE)
)

READINGS: dict[str, Reading] = {
    "strict": Reading("strict", dead_load_severity="error", doubts="error"),
    "ptx": Reading("ptx", assumptions=_PTX, noted=frozenset((ASYNC_READ_DONE, WAR_NO_FENCE))),
    "hardware": Reading(
        "hardware",
        assumptions=_PTX | {REGISTER_USE, LANES_TOGETHER, CTA_SPANS_CLUSTER},
        equal_write_severity="note",
        protocol_severity="note",
    ),
}


def reading_named(name: str, isa: str = DEFAULT_ISA, assume: tuple[str, ...] = ()) -> Reading:
    """Errors: InputError for an unknown reading, version or assumption."""
    if name not in READINGS:
        raise InputError(f"unknown reading {name!r}; known: {', '.join(READINGS)}, all")
    reading = READINGS[name].at(isa)
    for item in assume:
        reading = reading.assume(item)
    return reading
