"""What a reader of the litmus explorer found, so that it stays mended: both engines."""

from __future__ import annotations

from typing import Any

import pytest
from lastread.litmus.language import parse
from lastread.model.axiomatic.explore import explore
from lastread.model.axiomatic.outcome import Outcome
from lastread.model.program import InputError

ENGINES = ("enumerate", "smt")
ONE = "P0@cta 0 ;\n"
TWO = "P0@cta 0 | P1@cta 1 ;\n"


def run(text: str, engine: str, **options: Any) -> Outcome:
    return explore(parse(f"PTX t\n{text}"), "ptx", engine, **options)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "text",
    [
        "{ x = 0; P0:r1 = &x; }\n" + ONE + "add r1, r1, 4 ;\nld r0, [r1] ;\nforall (x = 99)",
        "{ x = 0; P0:r1 = 7; }\n" + ONE + "st [r1], 5 ;\n~exists (x = 0)",
        "{ x = 0; p = 0; }\n" + ONE + "ld r1, p ;\nld r0, [r1] ;\nforall (x = 99)",
    ],
)
def test_an_address_that_is_no_locations_is_no_proof(text: str, engine: str) -> None:
    outcome = run(text, engine)
    assert outcome.holds is None
    assert "no location's" in outcome.cut[0]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_test_that_always_hangs_says_so(engine: str) -> None:
    text = "{ x = 0; }\n" + ONE + "bar.sync 0, 3 ;\nforall (x = 77)"
    outcome = run(text, engine)
    assert (outcome.states, outcome.unfinished) == ([], True)


TESTED = "{ mbarrier b count 1; }\n" + ONE
LOOP = "L: mbarrier.test_wait.parity r0, b, 0 ;\nbeq r0, 0, L ;\nexists (P0:r0 = 1)"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("text", "ends"), [(TESTED + "mbarrier.arrive b ;\n" + LOOP, True), (TESTED + LOOP, False)]
)
def test_a_loop_that_tests_an_mbarrier_ends_with_its_phase(
    text: str, ends: bool, engine: str
) -> None:
    assert run(text, engine, property="termination").holds is ends


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "{ mbarrier b @ cta 0 count 1; x = 0; }\n" + TWO + "mbarrier.arrive b | "
            "mbarrier.try_wait.parity b, 0 ;\nexists (x = 1)",
            "t:4:21: `mbarrier.try_wait.parity b, 0` waits at the mbarrier of another CTA",
        ),
        (
            "{ shared s @ cta 0 = 0; }\nP0@cta 0 | P1@cta 1,cluster 1 ;\n"
            "st s, 1 | ld r0, s ;\nexists (P1:r0 = 1)",
            "t:4:11: `ld r0, s` accesses shared memory of another cluster",
        ),
    ],
)
def test_what_a_thread_cannot_reach_is_an_error(text: str, message: str, engine: str) -> None:
    with pytest.raises(InputError, match="^" + message.replace(".", r"\.")):
        run(text, engine)
