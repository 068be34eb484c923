"""Compares the two engines for litmus tests, on all tests there are and on generated ones.

    python benchmarks/engines.py [--count N] [--seed S] [--quick]

runs the corpus, the peers' tests (where ../shared/peer_litmus is), and N generated tests (default
5000) with both engines: final states, verdict, races, and whether every run ends must be equal.
Prints what differs and keeps the summary in benchmarks/results/engines.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from lastread.litmus.corpus_tests import entries
from lastread.litmus.diy import family
from lastread.litmus.language import nvlabs, parse
from lastread.model.axiomatic.code import Test
from lastread.model.axiomatic.explore import explore
from lastread.model.program import InputError
from lastread.model.readings import READINGS, reading_named

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "engines.md"
PEERS = ROOT.parent / "shared" / "peer_litmus"
LIMIT_S = 5.0


@dataclass
class Tally:
    """What became of the tests of one kind."""

    name: str
    counts: Counter[str] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)


def generated(count: int, seed: int) -> Iterator[tuple[Test, str]]:
    """Up to 4 threads and 12 events; readings and properties take turns."""
    for number, (name, text) in enumerate(family(seed, count)):
        yield parse(text, name), tuple(READINGS)[number % len(READINGS)]


def of_corpus() -> Iterator[tuple[Test, str]]:
    for entry in entries():
        for reading in READINGS:
            yield entry.test(), reading


def of_peers() -> Iterator[tuple[Test, str]]:
    for path in sorted((PEERS / "PTX").rglob("*.litmus")):
        yield parse(path.read_text(encoding="utf-8"), str(path)), "ptx"
    for path in sorted((PEERS / "nvlabs_mixedproxy").glob("*.test")):
        for test in nvlabs.parse(path.read_text(encoding="utf-8"), str(path)):
            yield test, "ptx"


def compare(test: Test, reading: str, isa: str, asked: str, tally: Tally) -> str:
    """Empty when the engines agree; else what each says."""
    found = []
    for engine in ("enumerate", "smt"):
        started = time.monotonic()
        deadline = started + LIMIT_S
        outcome = explore(test, reading_named(reading, isa), engine, asked, deadline=deadline)
        tally.seconds[engine] += time.monotonic() - started
        found.append(outcome)
    one, other = found
    if not (one.complete and other.complete):
        tally.counts["cut short"] += 1
        return ""
    tally.counts["compared"] += 1
    if asked == "termination":
        same = one.holds is other.holds
    else:
        same = one.states == other.states and bool(one.races) == bool(other.races)
    if same:
        return ""
    tally.counts["different"] += 1
    return (
        f"{test.path or test.name} ({reading}, ISA {isa}, {asked}):\n"
        f"  enumerate {one.holds} {one.states} races {bool(one.races)} {one.hangs}\n"
        f"  smt       {other.holds} {other.states} races {bool(other.races)} {other.hangs}"
    )


def run(name: str, tests: Iterator[tuple[Test, str]], isa: str) -> Tally:
    tally = Tally(name)
    for number, (test, reading) in enumerate(tests):
        for asked in ("condition", "termination") if number % 4 == 0 else ("condition",):
            try:
                difference = compare(test, reading, isa, asked, tally)
            except InputError as error:
                difference = f"{test.name}: {error}"
            if difference:
                print(difference, flush=True)
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=5000, help="generated tests (default 5000)")
    parser.add_argument("--seed", type=int, default=1, help="of the generator (default 1)")
    parser.add_argument("--quick", action="store_true", help="generated tests only")
    options = parser.parse_args()
    tallies = [
        run(f"generated, seed {options.seed}", generated(options.count, options.seed), "9.4")
    ]
    if not options.quick:
        tallies.append(run("corpus, three readings", of_corpus(), "9.4"))
        if PEERS.is_dir():
            tallies.append(run("peers", of_peers(), "7.5"))
    lines = [
        "# The two engines for litmus tests", "",
        "| tests | compared | different | cut short | enumerate s | smt s |",
        "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for tally in tallies:
        counts = [tally.counts[key] for key in ("compared", "different", "cut short")]
        seconds = [f"{tally.seconds[engine]:.0f}" for engine in ("enumerate", "smt")]
        lines.append(f"| {tally.name} | {' | '.join(map(str, [*counts, *seconds]))} |")
    print("\n".join(lines))
    if not options.quick:
        RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return int(any(tally.counts["different"] for tally in tallies))


if __name__ == "__main__":
    sys.exit(main())
