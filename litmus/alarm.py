"""`--timeout`, also where nothing looks at the clock."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from ..model.program import BudgetExceeded

GRACE_S = 0.5
"""How long after `--timeout` the alarm rings, so that who watches the clock can answer."""

TIME_IS_UP = "the time limit was reached"


@contextmanager
def alarm(deadline: float | None) -> Iterator[None]:
    """Ends what runs under it a moment after `deadline` (of `time.monotonic`).

    Errors: BudgetExceeded. Only in the main thread, which alone may set signals.
    """
    if deadline is None or not hasattr(signal, "setitimer"):
        yield
        return

    left = deadline - time.monotonic()
    if left <= 0:
        raise BudgetExceeded(TIME_IS_UP)

    def stop(*_: object) -> NoReturn:
        raise BudgetExceeded(TIME_IS_UP)

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, left + GRACE_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
