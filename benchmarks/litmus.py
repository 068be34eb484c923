"""Measures litmus tests: one process over many tests, and one test from a cold start.

    python benchmarks/litmus.py [PEERS]

prints a table and keeps it in benchmarks/results/litmus.md. PEERS is the folder of the peers' tests
(default ../shared/peer_litmus); without it the corpus is measured alone.
"""

from __future__ import annotations

import csv
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lastread.litmus.corpus_tests import HOME
from lastread.litmus.language import parse
from lastread.model.axiomatic.explore import explore
from lastread.model.axiomatic.outcome import Outcome
from lastread.model.readings import reading_named
from run import measure, unit

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "litmus.md"
PEERS = ROOT.parent / "shared" / "peer_litmus"
ENGINES = ("enumerate", "smt")
COLD = "MP+rel.gpu+acq.gpu"


@dataclass(frozen=True)
class Job:
    """A test as it is asked: its file, the ISA version, the property."""

    path: Path
    isa: str
    asked: str = "condition"

    def run(self, engine: str) -> tuple[float, Outcome]:
        """Seconds from the text to the answer."""
        started = time.perf_counter()
        test = parse(self.path.read_text(encoding="utf-8"), str(self.path))
        outcome = explore(test, reading_named("ptx", self.isa), engine, self.asked)
        return time.perf_counter() - started, outcome


def rows_of_peers(folder: Path) -> Iterator[Job]:
    """The rows of expected.csv."""
    with (folder / "expected.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            asked = "condition" if row["property"] == "program_spec" else "termination"
            yield Job(folder / row["path"], row["model"].removeprefix("ptx-v"), asked)


def folder_of_peers(folder: Path) -> Iterator[Job]:
    """Every test, both properties."""
    for path in sorted((folder / "PTX").rglob("*.litmus")):
        yield Job(path, "7.5")
        yield Job(path, "7.5", "termination")


def whole_corpus(_: Path) -> Iterator[Job]:
    return (Job(path, "9.4") for path in sorted(HOME.rglob("*.litmus")))


SETS: tuple[tuple[str, Callable[[Path], Iterable[Job]]], ...] = (
    ("peers, rows of expected.csv", rows_of_peers),
    ("peers, whole folder, both properties", folder_of_peers),
    ("corpus, ISA 9.4, ptx", whole_corpus),
)


def row(name: str, jobs: list[Job], engine: str) -> str:
    """One line of the table: times in milliseconds."""
    times, open_ = [], 0
    for job in jobs:
        seconds, outcome = job.run(engine)
        times.append(1000 * seconds)
        open_ += outcome.holds is None
    cells = (statistics.median(times), statistics.quantiles(times, n=20)[-1], max(times))
    middle = " | ".join(f"{cell:.1f}" for cell in cells)
    return f"| {name} | {engine} | {len(jobs)} | {middle} | {sum(times) / 1000:.1f} | {open_} |"


def table(peers: Path) -> Iterator[str]:
    yield "| tests | engine | runs | median ms | 95 % ms | longest ms | all s | undecided |"
    yield "|---|---|---|---|---|---|---|---|"
    for name, jobs_of in SETS:
        if jobs_of is whole_corpus or peers.is_dir():
            jobs = list(jobs_of(peers))
            for engine in ENGINES:
                jobs[0].run(engine)  # the grammar and z3 are loaded once
                yield row(name, jobs, engine)


def cold() -> Iterator[str]:
    yield "| cold start | seconds |"
    yield "|---|---|"
    for engine in ENGINES:
        words = ["litmus", COLD, "--engine", engine]
        run = measure(words)
        yield f"| `lastread {' '.join(words)}` | {run.seconds:.2f} |"


def main() -> None:
    peers = Path(sys.argv[1]) if len(sys.argv) > 1 else PEERS
    lines = [
        "# Litmus tests", "",
        f"A reference loop takes {unit():.2f} s on this machine (see latest.md). One process runs "
        "all tests of a line, parsing included; a cold start is the fastest of five.", "",
        *table(peers), "", *cold(), "",
    ]  # fmt: skip
    text = "\n".join(lines)
    RESULTS.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
