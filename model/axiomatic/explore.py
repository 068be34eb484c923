"""`explore`: one litmus test, one reading, one engine."""

from __future__ import annotations

import time
from dataclasses import replace

from ..composition import ROWS, Row
from ..program import InputError
from ..readings import Reading, reading_named
from ..rules import TABLE, RuleTable
from .axioms import AXIOMS, AxiomTable
from .code import Branch, Test
from .enumerate import Query, enumerate_executions
from .outcome import Outcome

ENGINES = ("enumerate", "smt")
PROPERTIES = ("condition", "termination")
DEFAULT_BOUND = 1
"""As the published models have it."""


def explore(
    test: Test,
    reading: str | Reading = "ptx",
    engine: str = "enumerate",
    property: str = "condition",
    bound: int = DEFAULT_BOUND,
    deadline: float | None = None,
    show: bool = False,
    table: RuleTable = TABLE,
    rows: tuple[Row, ...] = ROWS,
    axioms: AxiomTable = AXIOMS,
) -> Outcome:
    """The final states of a test (property "condition"), or its fair runs that do not end.

    `bound`: how often a loop may come back to its head with other register values; loops that
    only spin are complete without it. `deadline` is a value of `time.monotonic()`. With `show`
    the outcome has pictures. Errors: InputError for an unknown name, or an instruction that the
    ISA version does not have.
    """
    started = time.monotonic()
    chosen = reading_named(reading) if isinstance(reading, str) else reading
    for what, name, known in (("engine", engine, ENGINES), ("property", property, PROPERTIES)):
        if name not in known:
            raise InputError(f"unknown {what} {name!r}; known: {', '.join(known)}")
    loops = any(
        isinstance(each, Branch) and each.target <= number
        for thread in test.threads
        for number, each in enumerate(thread.code)
    )
    limit = bound if loops else None
    outcome = Outcome(test, chosen.isa, chosen.name, engine, property, bound=limit)
    query = Query(test, chosen, bound, deadline, table, rows, axioms)
    if engine == "smt":
        from .smt import solve

        solve(query, outcome)
        if show:
            _draw(query, outcome)
    else:
        enumerate_executions(query, outcome, show)
    outcome.seconds = time.monotonic() - started
    return outcome


def _draw(query: Query, outcome: Outcome) -> None:
    """The solver answers without executions: those to show are the enumerator's."""
    drawn = Outcome(query.test, outcome.isa, outcome.reading, "enumerate", outcome.asked)
    enumerate_executions(replace(query, candidates=0), drawn, show=True)
    outcome.witness, outcome.forbidden = drawn.witness, drawn.forbidden
