"""The enumerating engine against `chapter8`, an oracle written from the text without the engine.

A difference is a fault of one of them. `python tests/model/test_chapter8.py SEED COUNT` compares as
many random tests as one has time for.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path

import pytest
from chapter8 import Answer, OutOfDomain, answer
from chapter8_random import random_test
from lastread.litmus.diy import family
from lastread.litmus.language import nvlabs
from lastread.litmus.language.parser import parse
from lastread.model.axiomatic.code import Test
from lastread.model.axiomatic.explore import explore
from lastread.model.program import InputError
from lastread.model.readings import reading_named

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT.parent / "shared" / "peer_litmus"
FOLDERS = ("PTX/Barrier", "PTX/Manual", "PTX/Memalloy", "PTX/Nvidia", "nvlabs_mixedproxy")
SEED = 20
CHUNKS, CHUNK = 4, 30
MOST = 80
"""Candidates of a test; larger ones take the oracle too long."""
CYCLES = 6
"""Memory events of a test of `diy`."""


def engine(test: Test, isa: str) -> Answer:
    outcome = explore(test, reading_named("strict", isa), engine="enumerate")
    assert outcome.complete
    states = frozenset(tuple(state[q] for q in test.observed) for state in outcome.states)
    return Answer(states, bool(outcome.races))


def compare(test: Test, isa: str) -> bool:
    """Asserts that the two agree; False when the test is outside the oracle or the version."""
    try:
        wanted = answer(test, isa, MOST)
        found = engine(test, isa)
    except OutOfDomain:
        return False
    except InputError as error:
        assert "is not in ISA" in str(error)
        return False
    assert found == wanted, difference(test, isa, found, wanted)
    return True


def difference(test: Test, isa: str, found: Answer, wanted: Answer) -> str:
    names = ", ".join(map(str, test.observed))
    return "\n".join((
        f"{test.name}, ISA {isa}: states of ({names})",
        f"only the engine has: {sorted(found.states - wanted.states)}",
        f"only the oracle has: {sorted(wanted.states - found.states)}",
        f"race: engine {found.races}, oracle {wanted.races}",
        test.text,
    ))  # fmt: skip


def compare_versions(test: Test) -> int:
    """In how many of the versions that the base model has: 9.4 stands for those with clusters."""
    older = compare(test, "6.0"), compare(test, "7.5")
    return sum(older) + (not older[1] and compare(test, "9.4"))


# --- the peers' tests -----------------------------------------------------------------------------


def peers(folder: str) -> Iterator[Test]:
    for path in sorted((PEERS / folder).rglob("*")):
        if path.suffix == ".litmus":
            yield parse(path.read_text(encoding="utf-8"), str(path))
        elif path.suffix == ".test":
            yield from nvlabs.parse(path.read_text(encoding="utf-8"), str(path))


@pytest.mark.skipif(not PEERS.is_dir(), reason="the peers' tests (../shared) are not here")
@pytest.mark.parametrize("folder", FOLDERS)
def test_peers(folder: str) -> None:
    assert sum(map(compare_versions, peers(folder))) > 0


# --- random tests ---------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random(chunk: int) -> None:
    indices = range(chunk * CHUNK, (chunk + 1) * CHUNK)
    compared = sum(compare_versions(parse(random_test(SEED, index))) for index in indices)
    assert compared > CHUNK / 2


@cache
def cycles() -> tuple[Test, ...]:
    """Tests of the generator, of the flavours that the oracle knows."""
    named = family(SEED, 300, threads=3, events=CYCLES)
    known = (item for item in named if item[0].split("-")[0] in ("generic", "proxy", "barrier"))
    return tuple(parse(text, name) for name, text in islice(known, 30))


@pytest.mark.parametrize("part", range(2))
def test_generated(part: int) -> None:
    assert sum(map(compare_versions, cycles()[part::2])) > 10


# --- points on which the text is open, as both take them ------------------------------------------

HEADS = {"alone": " P0@cta 0", "apart": " P0@cta 0 | P1@cta 1"}


def small(init: str, head: str, rows: str, shown: str) -> Test:
    body = "".join(f" {row.strip()} ;\n" for row in rows.strip().splitlines())
    text = f"PTX open\n{{ {init} }}\n{HEADS[head]} ;\n{body}locations [{shown}]\nexists true\n"
    return parse(text)


OPEN = {
    "a fence has no proxy": small(
        "x = 0; y = 0; u @ surface aliases y;", "apart",
        """st.weak x, 1             | suld.acquire.gpu r0, u
           fence.acq_rel.gpu        | ld.weak r1, x
           sust.relaxed.gpu u, 1    |""",
        "P1:r0; P1:r1;",
    ),
    "a release pattern is of one proxy": small(
        "x = 0; y = 0; u @ surface aliases y;", "apart",
        """st.weak x, 1             | suld.relaxed.gpu r0, u
           st.release.gpu y, 1      | fence.acq_rel.gpu
           sust.relaxed.gpu u, 2    | ld.weak r1, x""",
        "P1:r0; P1:r1;",
    ),
    "what exch writes does not depend on what it reads": small(
        "x = 0;", "apart",
        "atom.relaxed.cta.exch r0, x, 1 | atom.relaxed.cta.exch r0, x, 2",
        "x; P0:r0; P1:r0;",
    ),
    "program order between proxies is not of SC-per-Location": small(
        "x = 0; s @ surface aliases x;", "apart",
        """ld.relaxed.gpu r0, x     | suld.relaxed.gpu r0, s
           sust.relaxed.gpu s, 1    | st.relaxed.gpu x, 2""",
        "x; P0:r0; P1:r0;",
    ),
    "a barrier synchronizes with itself": small(
        "x = 0;", "apart",
        """ld.relaxed.gpu r0, x     | st.relaxed.gpu x, 1
           bar.sync 0               |
           st.weak x, 2             |""",
        "x; P0:r0;",
    ),
    "surfaces at two addresses need more than the alias fence": small(
        "x = 0; x2 @ generic aliases x; s @ surface aliases x; s2 @ surface aliases x2;", "alone",
        """sust.weak s, 1
           fence.proxy.alias
           suld.weak r0, s2""",
        "P0:r0;",
    ),
    "surfaces of two CTAs can synchronize in a circle": small(
        "x = 0; s @ surface aliases x; y = 0; u @ surface aliases y;", "apart",
        """suld.acquire.gpu r0, s   | suld.acquire.gpu r0, u
           sust.release.gpu u, 1    | sust.release.gpu s, 1""",
        "P0:r0; P1:r0;",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OPEN)
def test_open_points(name: str) -> None:
    assert compare_versions(OPEN[name]) > 0


if __name__ == "__main__":
    print(sum(compare_versions(parse(random_test(int(sys.argv[1]), index)))
              for index in range(int(sys.argv[2]))))  # fmt: skip
