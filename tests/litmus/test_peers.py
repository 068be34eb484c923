"""The peers' tests and their published verdicts (`../shared/peer_litmus`, see its README)."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest
from lastread.litmus import load
from lastread.model.axiomatic.code import Test
from lastread.model.axiomatic.explore import explore
from lastread.model.readings import reading_named

PEERS = Path(__file__).resolve().parents[3] / "shared" / "peer_litmus"
DIFFERENT = {
    "Release_acquire_pattern": "says permit, but the patterns of the ISA (and the peers' own row) "
    "forbid it",
}

pytestmark = pytest.mark.skipif(
    not PEERS.is_dir(), reason=f"the peers' tests are not here ({PEERS})"
)


def rows() -> Iterator[dict[str, str]]:
    """path, model, property and expected of each verdict."""
    if PEERS.is_dir():
        with (PEERS / "expected.csv").open(encoding="utf-8") as file:
            yield from csv.DictReader(file)


def nvlabs() -> Iterator[Test]:
    for path in sorted((PEERS / "nvlabs_mixedproxy").glob("*.test")):
        yield from load(path)


ROWS = list(rows())
INSTANCES = list(nvlabs())


def name(row: dict[str, str]) -> str:
    return f"{Path(row['path']).stem}-{row['model']}-{row['property']}"


def holds(row: dict[str, str], engine: str) -> bool | None:
    (test,) = load(PEERS / row["path"])
    asked = "condition" if row["property"] == "program_spec" else "termination"
    reading = reading_named("ptx", row["model"].removeprefix("ptx-v"))
    return explore(test, reading, engine, asked).holds


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_a_published_verdict(row: dict[str, str]) -> None:
    assert holds(row, "enumerate") is (row["expected"] == "1")


@pytest.mark.parametrize("row", ROWS[::5], ids=name)
def test_a_published_verdict_by_the_solver(row: dict[str, str]) -> None:
    assert holds(row, "smt") is (row["expected"] == "1")


@pytest.mark.parametrize("test", INSTANCES, ids=lambda test: test.name)
def test_an_instance_of_nvlabs(test: Test) -> None:
    """`permit` and `assert` say what must hold."""
    outcome = explore(test, reading_named("ptx", "7.5"))
    assert outcome.holds is (test.name not in DIFFERENT)


def test_all_of_them_are_here() -> None:
    assert len(ROWS) == 351
    assert len(INSTANCES) == 128
