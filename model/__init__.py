"""The memory-ordering model: instructions, rules, readings and the engines that judge a program.

What it exports is imported when it is asked for: litmus tests need no `check`, kernels no axioms.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .checking import check
    from .program import BudgetExceeded, InputError, Program
    from .readings import READINGS, Reading
    from .verdict import Finding, Result

_HOMES = {
    "READINGS": "readings",
    "BudgetExceeded": "program",
    "Finding": "verdict",
    "InputError": "program",
    "Program": "program",
    "Reading": "readings",
    "Result": "verdict",
    "check": "checking",
}

__all__ = [
    "READINGS",
    "BudgetExceeded",
    "Finding",
    "InputError",
    "Program",
    "Reading",
    "Result",
    "check",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
