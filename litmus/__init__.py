"""Litmus tests, the command line and its views.

`load` and `run` are imported when they are asked for: the command must start fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .running import load, run

__all__ = ["load", "run"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import running

    return getattr(running, name)
