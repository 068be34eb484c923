"""`did you mean ...?` for names that are not there."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def suggestion(name: str, known: Iterable[str]) -> str:
    """The nearest known name as the end of a sentence, or nothing."""
    near = difflib.get_close_matches(name[:100], list(dict.fromkeys(known)), n=1)
    return f"; did you mean `{near[0]}`?" if near else ""
