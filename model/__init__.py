"""The memory-ordering model: instructions, rules, readings and the engines that judge a program."""

from .check import check
from .program import BudgetExceeded, InputError, Program
from .readings import READINGS, Reading
from .verdict import Finding, Result

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
