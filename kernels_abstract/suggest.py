"""What to say of a name that is not there."""

from __future__ import annotations

from collections.abc import Iterable

from ..model.suggest import suggestion

__all__ = ["or_declare", "suggestion"]


def or_declare(name: str, known: Iterable[str], form: str) -> str:
    """The nearest known name, or how to declare one: `form` shows it with `NAME`."""
    return suggestion(name, known) or f"; declare it: `{form.replace('NAME', name[:40])}`"
