"""Measures the command from a cold start: every library kernel, and growth with the trace.

    python benchmarks/run.py

prints a table and keeps it in benchmarks/results/latest.md. `lastread` must be installed in the
environment of this Python.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "latest.md"
GROWING = "flashinfer_mla_2cta_bf16"
TILES = (8, 16, 32)
REPEATS = 5
ADDITIONS = 10_000_000


@dataclass(frozen=True)
class Run:
    """One command: its exit status, its wall time and its peak of resident memory."""

    status: int
    seconds: float
    mebibytes: float


def measure(arguments: Sequence[str]) -> Run:
    """The fastest of some runs: what else the machine does only adds time."""
    return min((_measure(arguments) for _ in range(REPEATS)), key=lambda run: run.seconds)


def _measure(arguments: Sequence[str]) -> Run:
    """Runs `lastread ARGUMENTS` as a process of its own."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "lastread.litmus", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    return Run(process.returncode, seconds, usage.ru_maxrss / 1024)


def unit() -> float:
    """Seconds that this Python needs for `ADDITIONS` additions: compare machines by it."""

    def add() -> float:
        started = time.perf_counter()
        total = 0
        for number in range(ADDITIONS):
            total += number
        return time.perf_counter() - started

    return min(add() for _ in range(REPEATS))


def library() -> list[str]:
    from lastread.kernels_abstract import library

    return list(library.names())


def table() -> Iterator[str]:
    """The lines of the report, as they are measured."""
    yield "# Benchmarks"
    yield ""
    yield "`lastread check`, all readings together, the start of the program included; the fastest"
    yield f"of {REPEATS} runs; Python {platform.python_version()}, {os.cpu_count()} cores, on which"
    yield f"{ADDITIONS:,} additions in a loop take {unit():.2f} s."
    yield ""
    yield "| command | exit status | seconds | peak MiB |"
    yield "|---|---:|---:|---:|"
    for name in library():
        yield row(f"check {name}", measure(["check", name]))
    yield ""
    yield f"## Growth: {GROWING} by tiles"
    yield ""
    yield "| tiles | exit status | seconds | peak MiB | times the row above |"
    yield "|---:|---:|---:|---:|---:|"
    before = None
    for tiles in TILES:
        run = measure(["check", GROWING, "--set", f"work={tiles}"])
        ratio = f"{run.seconds / before.seconds:.2f}" if before else ""
        yield f"{row(str(tiles), run)} {ratio} |"
        before = run


def row(name: str, run: Run) -> str:
    return f"| {name} | {run.status} | {run.seconds:.2f} | {run.mebibytes:.0f} |"


def main() -> None:
    lines = []
    for line in table():
        print(line, flush=True)
        lines.append(line)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
