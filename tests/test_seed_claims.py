"""docs/seed-claims.md is right: every command on the page gives the verdicts beside it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from lastread.litmus.cli import main

PAGE = Path(__file__).parent.parent / "docs" / "seed-claims.md"
ROW = re.compile(r"^\| `([^`]+)` \| (.+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)
ROWS = ROW.findall(PAGE.read_text(encoding="utf-8"))


def judged(command: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    main(["check", *command.split(), "--json"])
    results: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["results"]
    return results


def cell(result: dict[str, Any]) -> str:
    notes = any(finding["severity"] == "note" for finding in result["findings"])
    return result["verdict"] + (" (n)" if notes else "")


@pytest.mark.parametrize(("command", "strict", "ptx", "hardware"), ROWS, ids=[r[0] for r in ROWS])
def test_claim(
    command: str, strict: str, ptx: str, hardware: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [cell(result) for result in judged(command, capsys)]
    expected = [strict, ptx, hardware]
    assert [verdict.split()[0] for verdict in found] == [e.split()[0] for e in expected]
    assert found[1:] == expected[1:]  # in strict, notes say little


def test_every_claim_has_a_row() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for claim in [f"S{n}" for n in range(1, 10)] + [f"T{n}" for n in range(1, 7)]:
        assert re.search(rf"\b{claim}\b", text), claim
    assert len(ROWS) > 40


PAIRS = [
    ("flashinfer_mla_2cta_bf16 --location corr", "ptx", 2),
    ("flashinfer_mla_2cta_bf16 --location corr --set corr=3", "ptx", 3),
    ("flashinfer_mla_2cta_bf16 --location corr --set o=2", "hardware", 2),
    ("flashinfer_mla_2cta_fp8 --location corr --set p=3", "hardware", 2),
]


@pytest.mark.parametrize(("command", "reading", "distance"), PAIRS)
def test_a_stale_read_is_a_depth_of_the_ring_away(
    command: str, reading: str, distance: int, capsys: pytest.CaptureFixture[str]
) -> None:
    (result,) = judged(f"{command} --reading {reading}", capsys)
    errors = [f for f in result["findings"] if f["severity"] == "error"]
    for finding in errors:
        assert finding["first"]["agent"] == "correction"
        assert finding["first"]["instruction"] == "tcgen05.ld"
        assert finding["second"]["instruction"] == "tcgen05.st"
        assert finding["second"]["tile"] - finding["first"]["tile"] == distance
    assert errors


def test_the_first_record_is_dead_and_the_others_are_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = "flashinfer_mla_2cta_bf16 --location corr --reading hardware"
    (result,) = judged(command, capsys)
    (finding,) = result["findings"]
    assert finding["severity"] == "note"
    assert finding["reason"] == "value is dead"
    assert (finding["location"], finding["count"]) == ("corr[0]", 1)
    assert (finding["first"]["tile"], finding["second"]["tile"]) == (0, 2)
    assert (finding["first"]["warp"], finding["second"]["warp"]) == (4, 0)
