"""Rules, rows and axioms about values matter: without one a forbidden outcome becomes possible, and
with a rule or row loosened a possible outcome is lost. The litmus tests are in `value_cases.py`.
"""

from __future__ import annotations

import pytest
from lastread.model.axiomatic.axioms import AXIOMS
from lastread.model.axiomatic.explore import ENGINES, explore
from lastread.model.composition import ROWS
from lastread.model.rules import TABLE
from value_cases import (
    AXIOM_CASES,
    FENCES_IN_ORDER,
    LOOSENED_ROWS,
    LOOSENED_RULES,
    REMOVED_ROWS,
    REMOVED_RULES,
    VALUE_ROWS,
    VALUE_RULES,
    Loosened,
)


def test_what_is_removed_is_loosened_too() -> None:
    assert set(TABLE.rules) >= set(LOOSENED_RULES) == VALUE_RULES
    assert {row.name for row in ROWS} >= set(LOOSENED_ROWS) == VALUE_ROWS


def test_every_axiom_is_tested() -> None:
    assert {axiom.name for axiom in AXIOMS.axioms} == {*AXIOM_CASES, "fence-sc"}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", REMOVED_RULES)
def test_without_the_rule_the_outcome_is_possible(name: str, engine: str) -> None:
    case = REMOVED_RULES[name]
    assert explore(case.test, case.reading, engine).observation == "Never"
    fewer = TABLE.without(name)
    assert explore(case.test, case.reading, engine, table=fewer).observation == "Sometimes"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", REMOVED_ROWS)
def test_without_the_row_the_outcome_is_possible(name: str, engine: str) -> None:
    case = REMOVED_ROWS[name]
    assert explore(case.test, case.reading, engine).observation == "Never"
    fewer = tuple(row for row in ROWS if row.name != name)
    assert explore(case.test, case.reading, engine, rows=fewer).observation == "Sometimes"


@pytest.mark.parametrize("name", AXIOM_CASES)
def test_without_the_axiom_the_outcome_is_possible(name: str) -> None:
    case = AXIOM_CASES[name]
    assert explore(case.test, case.reading).observation == "Never"
    fewer = AXIOMS.without(name)
    assert explore(case.test, case.reading, axioms=fewer).observation == "Sometimes"


def test_without_the_axiom_of_fences_there_are_more_executions() -> None:
    """No outcome depends on `fence-sc`: an order of fences that contradicts causality only adds
    order to what another one has, since fences synchronize in their order."""
    assert explore(FENCES_IN_ORDER).executions == 1
    assert explore(FENCES_IN_ORDER, axioms=AXIOMS.without("fence-sc")).executions == 2


@pytest.mark.parametrize("name", LOOSENED_RULES | LOOSENED_ROWS)
def test_loosened_the_outcome_is_lost(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case: Loosened = (LOOSENED_RULES | LOOSENED_ROWS)[name]
    assert explore(case.test, case.reading).observation == "Sometimes"
    if case.patch is not None:
        monkeypatch.setattr(*case.patch)
    changed = explore(case.test, case.reading, table=case.table, rows=case.rows)
    assert changed.observation == "Never"
