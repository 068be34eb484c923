"""The generator's edits of CUDA source, on a text of our own; and what it says when tools lack."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from lastread.kernels_abstract import generate
from lastread.model.program import InputError

SOURCE = """
extern "C" __global__ void __launch_bounds__(64) f(float* __restrict__ S_ptr, int D);
extern "C" __global__ void __launch_bounds__(64) f(float* __restrict__ S_ptr, int D) {
  float x = S_ptr[((int)threadIdx.y)];
  S_ptr[((int)threadIdx.y)] = (log2f(x) + x);
}
"""
STORE = "  S_ptr[((int)threadIdx.y)] = (log2f(x) + x);"


@pytest.mark.parametrize(
    ("barrier", "single_store", "expected"),
    [
        (False, False, STORE),
        (True, False, f"  __syncthreads();\n{STORE}"),
        (False, True, f"  if (((int)threadIdx.x) == 0) {{\n  {STORE}\n  }}"),
        (True, True, f"  __syncthreads();\n  if (((int)threadIdx.x) == 0) {{\n  {STORE}\n  }}"),
    ],
)
def test_each_half_of_the_fix(barrier: bool, single_store: bool, expected: str) -> None:
    assert generate.edit_merge(SOURCE, barrier, single_store) == SOURCE.replace(STORE, expected)


def test_a_source_that_has_the_fix_is_refused() -> None:
    fixed = generate.edit_merge(SOURCE, True, False)
    with pytest.raises(InputError, match="has the fix already"):
        generate.edit_merge(fixed, True, False)


def test_parameters_get_their_names_back() -> None:
    assert generate.parameter_names(SOURCE) == ["S", "D"]
    ptx = ".visible .entry f(.param .u64 f_param_0, .param .u32 f_param_1) { f_param_10 }"
    expected = ".visible .entry f(.param .u64 S, .param .u32 D) { f_param_10 }"
    assert generate.rename_parameters(ptx, ["S", "D"]) == expected


def test_without_tvm(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "tvm", None)
    arguments = ["tvm_merge_state_inplace", "--head-dim", "128", "-o", "unused.ptx"]
    assert generate.main(arguments) == 2
    assert "apache-tvm is not installed" in capsys.readouterr().err


def test_without_nvcc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "nvidia", None)
    monkeypatch.setattr(generate.shutil, "which", lambda *_, **__: None)
    with pytest.raises(InputError, match="nvcc is not installed"):
        generate.compile_to_ptx(SOURCE)
