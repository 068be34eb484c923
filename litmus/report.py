"""What a person reads: pure functions from results to rich renderables. No logic of the model."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import PurePath
from typing import IO

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..model.readings import ASSUMPTIONS
from ..model.verdict import Finding, Place, Proof, ProofStep, Result
from .sentences import headline, place_name, sentence
from .swimlanes import MARKS, swimlanes

PLAIN_WIDTH = 100
MAX_WIDTH = 120
DETAILED = 3
"""How many errors are shown with their schedule; the others get their sentence."""

_VERDICT_STYLES = {"ordered": "bold green", "unknown": "bold yellow"}
_LINE_STYLES = {
    "head": "bold",
    "first": "bold cyan",
    "second": "bold magenta",
    "missing": "bold red",
    "gap": "dim",
}


def console(stream: IO[str]) -> Console:
    """A console that prints text as it is: no markup, no highlighting, plain when piped."""
    out = Console(file=stream, markup=False, highlight=False, emoji=False)
    if not out.is_terminal and "COLUMNS" not in os.environ:
        out.width = PLAIN_WIDTH
    out.width = min(out.width, MAX_WIDTH)
    return out


def as_text(renderable: RenderableType, out: Console) -> str:
    """What `out` would print, without the blanks that pad its lines."""
    with out.capture() as captured:
        out.print(renderable)
    return "".join(line.rstrip(" ") + "\n" for line in captured.get().splitlines())


def report(
    results: Sequence[Result],
    deciding: Result,
    path: str = "",
    lines: Sequence[str] = (),
    width: int = PLAIN_WIDTH,
) -> RenderableType:
    """All readings of one kernel: verdicts, the deciding reading's findings, what stands behind.

    `lines` is the text of the kernel in the file `path`.
    """
    parts: list[RenderableType] = [_title(results), _parameters(deciding.parameters)]
    if len(results) > 1:
        parts += [Text(), readings_table(results, deciding)]
    parts += _stopped(deciding)
    parts += _findings(deciding, path, lines, width)
    parts += _differences(results, deciding)
    parts += _proofs(results, deciding)
    parts += _not_checked(deciding)
    return Group(*parts)


def _title(results: Sequence[Result]) -> Text:
    style = _VERDICT_STYLES.get(results[0].verdict, "bold red")
    alike = len({result.verdict for result in results}) == 1
    return Text.assemble(
        (f"{results[0].kernel}: ", "bold"), (headline(results), style if alike else "bold")
    )


def _parameters(parameters: Mapping[str, object]) -> Text:
    pairs = [f"{name}={_value(value)}" for name, value in parameters.items()]
    return Text("  ".join(pairs), style="dim")


def _value(value: object) -> str:
    """A parameter as it would be given to `--set`."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(_value, value))
    return str(value)


def readings_table(results: Sequence[Result], deciding: Result) -> Table:
    """One row a reading; the deciding one is pointed at."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("reading", "ISA", "verdict"):
        table.add_column(name, no_wrap=True)
    for name in ("errors", "notes"):
        table.add_column(name, justify="right")
    table.add_column("assumptions used")
    for result in results:
        table.add_row(
            ("▸ " if result is deciding else "  ") + result.reading,
            result.isa,
            Text(result.verdict, _VERDICT_STYLES.get(result.verdict, "bold red")),
            str(len(result.errors)),
            str(len(_notes(result))),
            ", ".join(result.assumptions) or "none",
        )
    return table


def _stopped(result: Result) -> Iterator[RenderableType]:
    """Why there is no answer."""
    if result.verdict == "unknown":
        yield Text()
        yield Text(f"Unknown ({result.reading})", "bold yellow")
        yield from map(_item, result.notes)


# --- findings -------------------------------------------------------------------------------------


def _notes(result: Result) -> list[Finding]:
    return [finding for finding in result.findings if finding.severity != "error"]


def _findings(
    result: Result, path: str, lines: Sequence[str], width: int
) -> Iterator[RenderableType]:
    for number, finding in enumerate(result.errors):
        yield Text()
        yield from _error(finding, result.reading, path, lines, width, number < DETAILED)
    notes = _notes(result)
    if notes:
        yield Text()
        yield Text("Notes (they do not decide the verdict)", "bold")
        for finding in notes:
            yield _item(f"{sentence(finding)}{_instances(finding)}")


def _error(
    finding: Finding, reading: str, path: str, lines: Sequence[str], width: int, detailed: bool
) -> Iterator[RenderableType]:
    kind = finding.kind if finding.kind != "proxy" else "missing proxy fence"
    yield Text.assemble((f"{kind} ({reading}): ", "bold red"), (sentence(finding) + ".", "bold"))
    yield from _places(finding, path, lines)
    if finding.count > 1:
        yield Text(
            f"  {finding.count} instances by location and tile; this is the smallest.", "dim"
        )
    for edge in finding.cycle:
        yield _item(edge)
    if detailed and finding.schedule:
        yield Text(f"\n  {_SCHEDULES.get(finding.kind, _SCHEDULE)}:", "bold")
        for line in swimlanes(finding, width):
            yield Text(line.text, _LINE_STYLES.get(line.style, ""), no_wrap=True)
        yield Text()
    elif finding.missing:
        yield _item(Text(finding.missing, "red"), "✗")
    if finding.remedy:
        yield _indented(Text.assemble(("What would order it: ", "bold"), finding.remedy))


_SCHEDULE = "A schedule that leads to it (time goes down)"
_SCHEDULES = {"deadlock": "Where they are stuck"}


def _places(finding: Finding, path: str, lines: Sequence[str]) -> Iterator[RenderableType]:
    for mark, place in ((MARKS["first"], finding.first), (MARKS["second"], finding.second)):
        if place is None:
            continue
        text = place.text or place.instruction
        yield _item(f"{text}: {place_name(place)}", mark)
        source = " ".join(lines[place.line - 1].split()) if 0 < place.line <= len(lines) else ""
        where = _where(place, path)
        if where:
            same = "" if source == text else source
            yield _item(Text(f"{where}  {same}".rstrip(), "dim"), " ")


def _where(place: Place, path: str) -> str:
    if not place.line:
        return ""
    return f"{PurePath(path).name}:{place.line}" if path else f"line {place.line}"


def _instances(finding: Finding) -> str:
    return f" ({finding.count} instances)" if finding.count > 1 else ""


def _indented(text: Text) -> Padding:
    return Padding(text, (0, 0, 0, 2))


def _item(text: str | Text, mark: str = "-") -> Padding:
    row = Table.grid(padding=(0, 1, 0, 0))
    row.add_row(mark, Text(text) if isinstance(text, str) else text)
    return Padding(row, (0, 0, 0, 2))


# --- what the readings differ in ------------------------------------------------------------------


def _differences(results: Sequence[Result], deciding: Result) -> Iterator[RenderableType]:
    others = [result for result in results if result.verdict != deciding.verdict]
    if not others:
        return
    yield Text()
    yield Text("Where the readings differ", "bold")
    for other in others:
        more = [name for name in other.assumptions if name not in deciding.assumptions]
        less = [name for name in deciding.assumptions if name not in other.assumptions]
        because = f", taking {' and '.join(more)}" if more else ""
        without = f", without {' and '.join(less)}" if less else ""
        more_to_see = f" (--reading {other.reading} shows it)" if other.errors else ""
        yield _item(f"{other.verdict} by `{other.reading}`{because}{without}{more_to_see}")


# --- proofs ---------------------------------------------------------------------------------------


def _proofs(results: Sequence[Result], deciding: Result) -> Iterator[RenderableType]:
    """The deciding reading's proof; after a race, that of a reading that orders the same pair."""
    if deciding.verdict == "ordered":
        yield from _proofs_of(deciding, deciding.proofs)
        return
    wrong = {(_array(finding.location), finding.hazard) for finding in deciding.errors}
    for result in results:
        proofs = [p for p in result.proofs if (_array(p.location), p.hazard) in wrong]
        if result.verdict == "ordered" and proofs:
            yield from _proofs_of(result, proofs)
            return


def _array(location: str) -> str:
    """The array of an element such as `corr[1]`."""
    return location.partition("[")[0]


def _proofs_of(result: Result, proofs: Sequence[Proof]) -> Iterator[RenderableType]:
    if not proofs:
        return
    yield Text()
    yield Text(
        f"Why it is ordered ({result.reading}): each line follows from the one above", "bold"
    )
    yield from _chain(proofs[0])
    if len(proofs) > 1:
        yield Text("  Ordered as well:", "bold")
    for proof in proofs[1:]:
        rules = ", ".join(dict.fromkeys(step.rule for step in proof.steps))
        yield _item(
            f"{proof.location}: {proof.first.agent}'s {proof.first.instruction} before "
            f"{proof.second.agent}'s {proof.second.instruction} ({rules})"
        )


def _chain(proof: Proof) -> Iterator[RenderableType]:
    yield Text.assemble(
        f"  {proof.location}: ",
        f"{place_name(proof.first)}: {proof.first.text or proof.first.instruction}",
    )
    table = Table.grid(padding=(0, 2, 0, 0))
    for rule, step in _program_order_in_one(proof.steps):
        where = f"line {step.line}" if step.line else ""
        name = Text.assemble(("    → ", "dim"), (rule, "green"))
        table.add_row(name, Text(step.section, "dim"), step.after, Text(where, "dim"))
    yield table


def _program_order_in_one(steps: Sequence[ProofStep]) -> Iterator[tuple[str, ProofStep]]:
    """Steps with the rule's name; neighbours in program order are one, named with their number."""
    for rule, group in groupby(steps, key=lambda step: step.rule):
        neighbours = list(group)
        if rule == "po" and len(neighbours) > 1:
            yield f"po ({len(neighbours)} steps)", neighbours[-1]
        else:
            yield from ((rule, step) for step in neighbours)


# --- what was not checked -------------------------------------------------------------------------


def _not_checked(result: Result) -> Iterator[RenderableType]:
    yield Text()
    yield Text("What this stands on, and what was not checked", "bold")
    covered = "every interleaving" if result.complete else "not all interleavings"
    yield _item(
        f"PTX ISA {result.isa}, reading `{result.reading}`; these parameter values only; "
        f"{covered} of these steps"
    )
    for name, value in result.bounds.items():
        yield _item(f"bound: {name} = {_value(value)}")
    for name in result.assumptions:
        yield _item(f"assumed, {name}: {ASSUMPTIONS.get(name, '')}")
    if result.verdict != "unknown":
        yield from map(_item, result.notes)
    if result.dropped_findings:
        yield _item(f"{result.dropped_findings} more findings were dropped (--max-findings)")


# --- lastread list --------------------------------------------------------------------------------


def listing(kernels: Sequence[tuple[str, str, Mapping[str, object]]]) -> RenderableType:
    """The library: (name, purpose, parameters with their defaults)."""
    parts: list[RenderableType] = []
    for name, purpose, parameters in kernels:
        parts.append(Text(name, "bold"))
        parts.append(Padding(Text(purpose), (0, 0, 0, 4)))
        if parameters:
            parts.append(Padding(_parameters(parameters), (0, 0, 0, 4)))
    return Group(*parts)
