"""TVM's merge_state_inplace, generated from the installed apache-tvm and compiled with nvcc.

Seed kernels, section B (apache/tvm pull request 20449): the claims T1, T3 and T4.
"""

from __future__ import annotations

import importlib.util
from functools import lru_cache
from pathlib import Path

import pytest
from lastread.kernels_abstract import generate
from lastread.kernels_abstract.ptx_program import load_ptx, program_of_ptx
from lastread.model import instructions as ins
from lastread.model.checking import check
from lastread.model.program import InputError, Program

HEAD_DIMS = (128, 256, 512)


def missing() -> str:
    """Why the generator cannot run here; empty if it can."""
    if importlib.util.find_spec("tvm") is None:
        return "apache-tvm is not installed"
    try:
        generate.find_nvcc()
    except InputError as error:
        return str(error)
    return ""


needs_tvm = pytest.mark.skipif(bool(missing()), reason=missing() or "-")
pytestmark = pytest.mark.generate


@lru_cache
def program(head_dim: int, barrier: bool = False, single_store: bool = False) -> Program:
    made = generate.tvm_merge_state_inplace(head_dim, barrier=barrier, single_store=single_store)
    return program_of_ptx(made.ptx, "merge.ptx", None, made.grid, made.block, (1,), made.parameters)


STOCK, BARRIER, SINGLE_STORE, FIX = (False, False), (True, False), (False, True), (True, True)


@needs_tvm
@pytest.mark.parametrize("head_dim", HEAD_DIMS)
@pytest.mark.parametrize(
    ("variant", "strict", "ptx", "hardware"),
    [
        (STOCK, "race", "race", {128: "ordered", 256: "race", 512: "race"}),
        (SINGLE_STORE, "race", "race", {128: "ordered", 256: "race", 512: "race"}),
        (BARRIER, "race", "race", dict.fromkeys(HEAD_DIMS, "ordered")),
        (FIX, "ordered", "ordered", dict.fromkeys(HEAD_DIMS, "ordered")),
    ],
    ids=["stock", "single store", "barrier", "fix"],
)
def test_verdicts(
    head_dim: int,
    variant: tuple[bool, bool],
    strict: str,
    ptx: str,
    hardware: dict[int, str],
) -> None:
    found = {
        reading: check(program(head_dim, *variant), reading).verdict
        for reading in ("strict", "ptx", "hardware")
    }
    assert found == {"strict": strict, "ptx": ptx, "hardware": hardware[head_dim]}


@needs_tvm
def test_the_race_is_on_s_alone() -> None:
    result = check(program(256), "ptx")
    assert {finding.location.partition("[")[0] for finding in result.findings} == {"S"}
    hazards = {finding.hazard for finding in result.findings}
    assert hazards == {"overwrite-before-last-read", "write-write"}


@needs_tvm
def test_the_barrier_alone_leaves_stores_of_equal_values() -> None:
    by_text, on_hardware = (check(program(256, *BARRIER), r) for r in ("ptx", "hardware"))
    assert [(f.hazard, f.severity) for f in by_text.findings] == [("write-write", "error")]
    notes = [(f.severity, f.reason) for f in on_hardware.findings]
    assert notes == [("note", "equal values")]


@needs_tvm
@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_agents_and_steps(head_dim: int) -> None:
    found = program(head_dim, *FIX)
    assert len(found.agents) == head_dim // 4 * 8
    assert {"S", "S_other", "V", "V_other"} == set(found.arrays)
    width = head_dim // 4
    for agent in found.agents:
        loads = [s.instruction for s in agent.steps if isinstance(s.instruction, ins.Load)]
        stores = [s.instruction for s in agent.steps if isinstance(s.instruction, ins.Store)]
        row = agent.thread // width
        assert sum(load.region.label == f"S[{row}]" for load in loads) == 1
        labels = [store.region.label for store in stores]
        assert (f"S[{row}]" in labels) == (agent.thread % width == 0)
        assert sum(label.startswith("V[") for label in labels) == 1
        assert sum(isinstance(s.instruction, ins.Bar) for s in agent.steps) == 1


@needs_tvm
def test_the_command_writes_ptx(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "merge.ptx"
    arguments = ["tvm_merge_state_inplace", "--head-dim", "128", "--single-store", "-o", str(path)]
    assert generate.main(arguments) == 0
    assert f"lastread check {path} --grid 1,1,1 --block 32,8,1" in capsys.readouterr().out
    with pytest.raises(InputError, match="at most 256 threads"):
        load_ptx(path)


@needs_tvm
def test_a_head_dim_that_tvm_cannot_do() -> None:
    with pytest.raises(InputError, match="head_dim 130"):
        generate.tvm_merge_state_inplace(130)
