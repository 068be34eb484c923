"""What an engine answers: plain data. Views print it, `--json` dumps it; neither adds to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import overload

KINDS = ("deadlock", "race", "proxy", "lifetime", "count", "lap", "divergence")
HAZARDS = ("overwrite-before-last-read", "read-before-write", "write-write", "use-after-free")


@dataclass(frozen=True)
class Place:
    """One instruction instance: who, what, which tile, which line of the kernel."""

    agent: str
    cta: int
    warp: int
    instruction: str
    tile: int | None
    line: int
    text: str = ""
    """The instruction with its operands, for people."""
    thread: int | None = None
    """Which thread of the CTA, when the agent is one of several threads of a warp."""

    def as_json(self) -> dict[str, object]:
        return {
            "agent": self.agent,
            "cta": self.cta,
            "warp": self.warp,
            "instruction": self.instruction,
            "tile": self.tile,
            "line": self.line,
        }


@dataclass(frozen=True)
class ScheduleRow:
    """One step of a counterexample. `mark` is "first" or "second" on the two accesses at fault.

    `event` is "issue", "access" (an asynchronous access takes effect), "complete" or "pass".
    """

    place: Place
    event: str
    mark: str = ""


class LazyRows(Sequence[ScheduleRow]):
    """A schedule that is worked out when somebody looks at it."""

    def __init__(self, make: Callable[[], tuple[ScheduleRow, ...]]) -> None:
        self._make = make

    @cached_property
    def _rows(self) -> tuple[ScheduleRow, ...]:
        return self._make()

    @overload
    def __getitem__(self, index: int) -> ScheduleRow: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[ScheduleRow, ...]: ...

    def __getitem__(self, index: int | slice) -> ScheduleRow | tuple[ScheduleRow, ...]:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)


@dataclass(frozen=True)
class ProofStep:
    """One order edge: `rule` (see `rules.TABLE`) leads from `before` to `after`."""

    rule: str
    section: str
    before: str
    after: str
    line: int = 0


@dataclass(frozen=True)
class Proof:
    """Why `first` is ordered before `second`: the chain of edges."""

    location: str
    hazard: str
    first: Place
    second: Place
    steps: tuple[ProofStep, ...]
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """One pair of instructions, array and kind, shown at its smallest instance.

    `count` is how many locations and tiles show it; warps and CTAs that do the same count once.
    `schedule` leads to the error; `cycle` lists the waits of a deadlock; `missing` names the edge
    that is not there, `remedy` what would order the pair.
    """

    kind: str
    severity: str
    location: str
    count: int
    first: Place
    second: Place | None = None
    hazard: str = ""
    reason: str = ""
    assumptions: tuple[str, ...] = ()
    schedule: Sequence[ScheduleRow] = ()
    cycle: tuple[str, ...] = ()
    missing: str = ""
    remedy: str = ""
    other_location: str = ""
    """What the second access calls the bytes, when its array is another one."""

    def as_json(self) -> dict[str, object]:
        return {
            "kind": self.kind,
            "hazard": self.hazard or None,
            "severity": self.severity,
            "reason": self.reason,
            "location": self.location,
            "count": self.count,
            "first": self.first.as_json(),
            "second": None if self.second is None else self.second.as_json(),
            "assumptions": list(self.assumptions),
            "cycle": list(self.cycle),
        }


@dataclass
class Result:
    """The answer for one kernel, one set of parameters, one reading."""

    kernel: str
    parameters: dict[str, object]
    reading: str
    isa: str
    verdict: str
    assumptions: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    proofs: tuple[Proof, ...] = ()
    bounds: dict[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """What was assumed or left out by the front end, and why an answer is `unknown`."""
    dropped_findings: int = 0
    seconds: float = 0.0
    complete: bool = True
    """False: a bound or the time limit stopped the answer; what was found still counts."""

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.severity == "error")

    def as_json(self) -> dict[str, object]:
        return {
            "kernel": self.kernel,
            "parameters": self.parameters,
            "reading": self.reading,
            "isa": self.isa,
            "assumptions": list(self.assumptions),
            "scope": {"kind": "bounded", "bounds": self.bounds},
            "verdict": self.verdict,
            "condition": None,
            "findings": [f.as_json() for f in self.findings],
            "dropped_findings": self.dropped_findings,
            "notes": list(self.notes),
            "seconds": round(self.seconds, 3),
        }


def verdict_of(findings: tuple[Finding, ...]) -> str:
    """`deadlock` before `race` before `misuse` before `ordered`; notes do not decide."""
    kinds = {finding.kind for finding in findings if finding.severity == "error"}
    if "deadlock" in kinds:
        return "deadlock"
    if kinds & {"race", "proxy"}:
        return "race"
    return "misuse" if kinds else "ordered"
