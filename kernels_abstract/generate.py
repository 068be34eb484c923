"""Generators of real PTX from installed packages. Their output is never part of this repository.

    python -m lastread.kernels_abstract.generate tvm_merge_state_inplace --head-dim 256 -o merge.ptx

`tvm_merge_state_inplace` is the kernel of apache/tvm pull request 20449, as the installed
apache-tvm generates it for CUDA, optionally with either half of that pull request's fix.
"""

from __future__ import annotations

import argparse
import importlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..model.program import InputError

ARCHITECTURE = "sm_90"
ELEMENTS_PER_THREAD = 4
INSTALL = "pip install '.[generate]' in a checkout of lastread"


@dataclass(frozen=True)
class Generated:
    """PTX, and how the kernel is launched."""

    ptx: str
    block: tuple[int, int, int]
    grid: tuple[int, int, int]
    parameters: dict[str, int]

    @property
    def options(self) -> str:
        """The launch as `lastread check` options."""
        shape = " ".join(
            f"--{name} {','.join(map(str, numbers))}"
            for name, numbers in (("grid", self.grid), ("block", self.block))
        )
        return shape + "".join(f" --param {n}={v}" for n, v in self.parameters.items())


# --- TVM -----------------------------------------------------------------------------------------


def tvm_merge_state_inplace(
    head_dim: int,
    heads: int = 8,
    tokens: int = 1,
    barrier: bool = False,
    single_store: bool = False,
) -> Generated:
    """The merge of two attention states in place.

    `barrier` puts a block-wide barrier before the store of S; `single_store` lets only the threads
    with x = 0 store it. Both together are the fix.
    """
    if head_dim % ELEMENTS_PER_THREAD or not 32 <= head_dim <= 1024 or not 1 <= heads <= 1024:
        raise InputError(f"cannot generate head_dim {head_dim} with {heads} heads")
    source = edit_merge(_tvm_merge_source(head_dim, heads), barrier, single_store)
    names = parameter_names(source)
    bounds = _only(r"__launch_bounds__\((\d+)\)\s+\w+\([^;]*?\)\s*\{", source, "launch bounds")
    threads = int(bounds)
    width = head_dim // ELEMENTS_PER_THREAD
    rows = threads // width
    values = {"D": head_dim, "H": heads, "N": tokens}
    return Generated(
        rename_parameters(compile_to_ptx(source), names),
        (width, rows, 1),
        (tokens, max(heads // rows, 1), 1),
        {name: values[name] for name in names if name in values},
    )


def _tvm_merge_source(head_dim: int, heads: int) -> str:
    """CUDA source as TVM prints it. No GPU is needed."""
    try:
        tvm = importlib.import_module("tvm")
        kernels = importlib.import_module("tvm.relax.frontend.nn.llm._decode_kernels")
    except ImportError as error:
        raise InputError(f"apache-tvm is not installed ({error}): {INSTALL}") from None
    try:
        target = tvm.target.Target(
            {"kind": "cuda", "arch": ARCHITECTURE, "max_threads_per_block": 1024}
        )
        function = kernels._merge_state_inplace(
            heads, head_dim, "float16", target, global_symbol="merge"
        )
        with target:
            module = tvm.tirx.build(function, target=target)
        return str(module.imports[0].inspect_source())
    except Exception as error:
        version = getattr(tvm, "__version__", "?")
        raise InputError(f"apache-tvm {version} does not generate this kernel: {error}") from error


def edit_merge(source: str, barrier: bool, single_store: bool) -> str:
    """Apply the halves of the fix to the CUDA source of the kernel."""
    if "__syncthreads" in source:
        raise InputError("this apache-tvm has the fix already: there is no stock kernel to edit")
    target = parameter_names(source)[0]
    store = _only(rf"^( *{target}(?:_ptr)?\[.*\] = .*log2f.*;)$", source, "the store of S")
    edited = f"  if (((int)threadIdx.x) == 0) {{\n  {store}\n  }}" if single_store else store
    if barrier:
        edited = f"  __syncthreads();\n{edited}"
    return source.replace(store, edited)


def parameter_names(source: str) -> list[str]:
    """The kernel's parameters, without TVM's `_ptr`."""
    listed = _only(r"__global__[^;{]*\(([^;{()]*)\)\s*\{", source, "the kernel's parameters")
    return [part.split()[-1].lstrip("*").removesuffix("_ptr") for part in listed.split(",")]


def rename_parameters(ptx: str, names: Sequence[str]) -> str:
    """Give the parameters of a single-entry PTX the names that they have in the source."""
    entry = _only(r"\.entry\s+(\w+)\s*\(", ptx, "the entry")
    for index, name in enumerate(names):
        ptx = re.sub(rf"\b{entry}_param_{index}\b", name, ptx)
    return ptx


def _only(pattern: str, text: str, what: str) -> str:
    found = re.findall(pattern, text, re.MULTILINE)
    if len(found) != 1:
        raise InputError(f"cannot find {what} in the generated source ({len(found)} candidates)")
    return str(found[0])


# --- nvcc ----------------------------------------------------------------------------------------


def find_nvcc() -> Path:
    """The nvcc of the installed wheels if it is complete, else the machine's."""
    incomplete = ""
    for candidate in _nvcc_of_wheels():
        include = candidate.parent.parent / "include"
        if (include / "nv" / "target").exists() or (include / "cccl" / "nv" / "target").exists():
            return candidate
        incomplete = f"; {candidate} lacks nv/target: pip install 'cuda-toolkit[cccl]>=13.0,<14'"
    found = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if found is None:
        raise InputError(f"nvcc is not installed: {INSTALL}{incomplete}")
    return Path(found)


def _nvcc_of_wheels() -> Iterator[Path]:
    """`nvidia` is a namespace package; each CUDA release installs below it."""
    try:
        paths = list(importlib.import_module("nvidia").__path__)
    except ImportError:
        return
    for path in paths:
        yield from sorted(Path(path).glob("*/bin/nvcc"), reverse=True)


def compile_to_ptx(source: str) -> str:
    """Compile CUDA C++ with nvcc -ptx."""
    nvcc = find_nvcc()
    with tempfile.TemporaryDirectory() as folder:
        cuda, ptx = Path(folder) / "kernel.cu", Path(folder) / "kernel.ptx"
        cuda.write_text(source)
        command = [str(nvcc), "-ptx", "-w", f"-arch={ARCHITECTURE}", str(cuda), "-o", str(ptx)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode or not ptx.exists():
            lines = (done.stderr or done.stdout).strip().splitlines()
            reason = next((line for line in lines if "error" in line), (lines or ["?"])[-1])
            raise InputError(f"{nvcc} fails: {reason}")
        return ptx.read_text()


# --- command line --------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m lastread.kernels_abstract.generate")
    kernels = parser.add_subparsers(dest="kernel", required=True)
    merge = kernels.add_parser("tvm_merge_state_inplace", help="apache/tvm pull request 20449")
    merge.add_argument("--head-dim", type=int, required=True)
    merge.add_argument("--heads", type=int, default=8)
    merge.add_argument("--tokens", type=int, default=1)
    merge.add_argument("--barrier", action="store_true", help="a barrier before the store of S")
    merge.add_argument("--single-store", action="store_true", help="only x = 0 stores S")
    merge.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args(arguments)
    try:
        generated = tvm_merge_state_inplace(
            options.head_dim, options.heads, options.tokens, options.barrier, options.single_store
        )
        options.output.write_text(generated.ptx)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {options.output}: {error.strerror}", file=sys.stderr)
        return 2
    print(f"lastread check {options.output} {generated.options}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
