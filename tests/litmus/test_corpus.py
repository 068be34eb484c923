"""The corpus: both engines give what the tests expect, and every rule is needed by some test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lastread.litmus.corpus_tests import HOME, Entry, entries, expected
from lastread.model.axiomatic.axioms import AXIOMS
from lastread.model.axiomatic.explore import explore
from lastread.model.axiomatic.outcome import Outcome
from lastread.model.program import InputError
from lastread.model.readings import DEFAULT_ISA, ISA_VERSIONS, READINGS, reading_named
from lastread.model.rules import TABLE

DOCS = Path(__file__).parents[2] / "docs"
ENTRIES = list(entries())
NAMES = {entry.name for entry in ENTRIES}
TAGGED = {rule for entry in ENTRIES for rule in entry.directives.rules}

NOT_LITMUS = {
    "metal-flags": "barriers of Metal are not PTX; tests/model/test_rules.py has its cases",
}
REDUNDANT = {
    "fence-sc": "if base causality orders two fences, the order of fence.sc that agrees with it "
    "adds nothing, so executions that the axiom forbids have a twin with the same values",
}


def versions(entry: Entry) -> Iterator[str]:
    """The default ISA version, and those around every version that the test mentions."""
    yield DEFAULT_ISA
    if any("isa=" in when for when, _ in entry.directives.expectations):
        yield from (isa for isa in ISA_VERSIONS if isa != DEFAULT_ISA)


def answers(outcome: Outcome) -> tuple[bool | None, bool]:
    return outcome.holds, bool(outcome.races)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry.folder}/{entry.name}")
def test_the_enumerator_gives_what_is_expected(entry: Entry) -> None:
    test = entry.test()
    for isa in versions(entry):
        for reading in READINGS:
            want = expected(entry.directives, isa, reading)
            try:
                outcome = explore(test, reading_named(reading, isa))
            except InputError:
                assert isa != DEFAULT_ISA, "an instruction that the default version does not have"
                continue
            assert outcome.complete, outcome.cut
            assert outcome.holds is want.holds, (isa, reading, outcome.states)
            assert want.race is None or bool(outcome.races) is want.race, (isa, reading)


@pytest.mark.parametrize("entry", ENTRIES[::7], ids=lambda entry: f"{entry.folder}/{entry.name}")
def test_both_engines_agree(entry: Entry) -> None:
    """Every seventh test; `benchmarks/engines.py` compares them all."""
    test = entry.test()
    one, other = explore(test, "ptx"), explore(test, "ptx", engine="smt")
    assert one.states == other.states
    assert answers(one) == answers(other)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry.folder}/{entry.name}")
def test_a_test_is_well_formed(entry: Entry) -> None:
    directives = entry.directives
    assert entry.test().name == entry.name
    assert directives.prose, "nothing to learn"
    assert directives.sections, "no place in the ISA"
    assert set(directives.rules) <= TABLE.rules.keys() | {axiom.name for axiom in AXIOMS.axioms}
    assert all(expected(directives, isa, "ptx").holds is not None for isa in ISA_VERSIONS)


def test_names_are_unique() -> None:
    assert len(NAMES) == len(ENTRIES)


def tagged(rule: str) -> Iterator[Entry]:
    return (entry for entry in ENTRIES if rule in entry.directives.rules)


def notices(entry: Entry, **without: Any) -> bool:
    """Does the answer change, in some version and reading, without a row of a table?"""
    test = entry.test()
    for isa in (DEFAULT_ISA, "9.3", "6.0"):
        for name in READINGS:
            reading = reading_named(name, isa)
            try:
                with_it = answers(explore(test, reading))
                if answers(explore(test, reading, **without)) != with_it:
                    return True
            except InputError:
                continue
    return False


@pytest.mark.parametrize("rule", sorted(TABLE.rules.keys() - NOT_LITMUS.keys()))
def test_without_a_rule_some_test_fails(rule: str) -> None:
    assert any(notices(entry, table=TABLE.without(rule)) for entry in tagged(rule))


@pytest.mark.parametrize("axiom", [a.name for a in AXIOMS.axioms if a.name not in REDUNDANT])
def test_without_an_axiom_some_test_fails(axiom: str) -> None:
    assert any(notices(entry, axioms=AXIOMS.without(axiom)) for entry in tagged(axiom))


@pytest.mark.parametrize("axiom", sorted(REDUNDANT))
def test_a_redundant_axiom_changes_nothing(axiom: str) -> None:
    assert not any(notices(entry, axioms=AXIOMS.without(axiom)) for entry in tagged(axiom))


def test_the_index_is_fresh() -> None:
    sys.path.insert(0, str(DOCS))
    try:
        from make_corpus import FOLDERS, page
    finally:
        sys.path.remove(str(DOCS))
    assert set(FOLDERS) == {path.name for path in HOME.iterdir()}
    assert (DOCS / "corpus.md").read_text(encoding="utf-8") == page(), (
        "run python docs/make_corpus.py"
    )
