"""The corpus: litmus tests that come with lastread, each with what it teaches and what is expected.

A test says in its comments what must hold, by ISA version and reading (`@expect`), and which
rules it is about (`@rule`); docs/litmus-language.md describes the directives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..model.axiomatic.code import Test
from .language import parse
from .language.directives import Directives, directives_of

HOME = Path(__file__).with_name("corpus")


@dataclass(frozen=True)
class Entry:
    """One test of the corpus."""

    path: Path
    text: str

    @property
    def folder(self) -> str:
        return self.path.parent.name

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def directives(self) -> Directives:
        return directives_of(self.text)

    def test(self) -> Test:
        return parse(self.text, str(self.path))


@dataclass(frozen=True)
class Expected:
    """What a test says of one ISA version and reading; None: it does not say."""

    holds: bool | None = None
    race: bool | None = None


def entries(home: Path = HOME) -> Iterator[Entry]:
    """All tests, by folder and name."""
    for path in sorted(home.rglob("*.litmus")):
        yield Entry(path, path.read_text(encoding="utf-8"))


def find(name: str) -> Path | None:
    """The file of a test by its name."""
    return next((path for path in HOME.rglob("*.litmus") if path.stem == name), None)


def expected(directives: Directives, isa: str, reading: str) -> Expected:
    """The last line that applies decides."""
    holds = race = None
    for when, what in directives.expectations:
        if _applies(when, isa, reading):
            if what in ("holds", "fails"):
                holds = what == "holds"
            else:
                race = what == "race"
    return Expected(holds, race)


def _applies(when: str, isa: str, reading: str) -> bool:
    asked = {"isa": isa, "reading": reading}
    conditions = (condition.split("=", 1) for condition in when.split())
    return all(asked[key] in values.split(",") for key, values in conditions)
