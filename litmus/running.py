"""Litmus tests, one after the other: find the files, read them, ask an engine. No printing.

What is wrong with one test is a value beside the answers, so that it does not stop the others.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from ..model.axiomatic.code import Test
from ..model.axiomatic.explore import DEFAULT_BOUND, explore
from ..model.axiomatic.outcome import Outcome
from ..model.program import BudgetExceeded, InputError
from ..model.readings import Reading, reading_named
from ..model.suggest import suggestion
from . import arguments, corpus_tests
from .alarm import alarm
from .language import parser

SUFFIXES = (".litmus", ".test")

T = TypeVar("T")


@dataclass(frozen=True)
class Question:
    """What is asked of every test."""

    readings: Sequence[Reading]
    engine: str = "enumerate"
    property: str = "condition"
    bound: int = DEFAULT_BOUND
    timeout: float | None = None
    show: bool = False


@dataclass(frozen=True)
class Source:
    """A file to read, and its path as it was given: an argument, a line of an index."""

    file: Path
    given: str


@dataclass(frozen=True)
class Answer:
    """One test with its outcomes, one a reading. `path` is the file's as it was given."""

    path: str
    outcomes: Sequence[Outcome]

    @property
    def deciding(self) -> Outcome:
        """`ptx` if it is among the readings, else the first one named."""
        named = (one for one in self.outcomes if one.reading == arguments.DECIDING)
        return next(named, self.outcomes[0])

    def as_json(self) -> list[dict[str, Any]]:
        """The `results` of `lastread litmus --json`, one a reading."""
        return [as_json(outcome, self.path) for outcome in self.outcomes]


def as_json(outcome: Outcome, path: str) -> dict[str, Any]:
    """One result of `lastread litmus --json`."""
    return {
        "test": outcome.test.name,
        "path": path,
        "isa": outcome.isa,
        "reading": outcome.reading,
        "quantifier": outcome.test.quantifier,
        "holds": outcome.holds,
        "observation": outcome.observation,
        "states": [{str(name): value for name, value in one.items()} for one in outcome.states],
        "positive": outcome.positive,
        "negative": outcome.negative,
        "bound": outcome.bound,
        "race": bool(outcome.races),
        "seconds": round(outcome.seconds, 6),
    }


# --- in Python ------------------------------------------------------------------------------------


def load(path: str | os.PathLike[str]) -> list[Test]:
    """The tests of a file: one of a `.litmus`, the instances of an NVlabs `.test`.

    Errors: InputError.
    """
    file = Path(path)
    text = _text(file)
    if file.suffix == ".test":
        from .language import nvlabs

        return nvlabs.parse(text, str(path))
    return [parser.parse(text, str(path))]


def run(
    test: Test | str | os.PathLike[str],
    reading: str | Reading = arguments.DECIDING,
    *,
    isa: str | None = None,
    assume: Sequence[str] = (),
    engine: str = "enumerate",
    property: str = "condition",
    bound: int = DEFAULT_BOUND,
    timeout: float | None = None,
    show: bool = False,
) -> Outcome:
    """Runs one test: a `Test` of `load`, or the path of a file with one test.

    The options are those of `lastread litmus`; `show` asks for executions to draw.
    Errors: InputError.
    """
    chosen = reading if isinstance(reading, Reading) else reading_named(reading)
    chosen = chosen if isa is None else chosen.at(isa)
    for name in assume:
        chosen = chosen.assume(name)
    question = Question([chosen], engine, property, bound, timeout, show)
    (outcome,) = _outcomes(test if isinstance(test, Test) else _only(test), question)
    return outcome


def _only(path: str | os.PathLike[str]) -> Test:
    tests = load(path)
    if len(tests) != 1:
        raise InputError(f"has {len(tests)} tests: take them from `load` one by one", str(path))
    return tests[0]


# --- the command ----------------------------------------------------------------------------------


def question_of(options: argparse.Namespace) -> Question:
    """Errors: InputError for an option that no test could make sense of."""
    if options.show is not None and options.show.endswith(SUFFIXES):
        raise InputError(f"--show {options.show}: the picture would overwrite a test")
    return Question(
        readings=arguments.readings(options.reading, options.isa, options.assume),
        engine=options.engine,
        property=options.property,
        bound=options.bound or DEFAULT_BOUND,
        timeout=options.timeout,
        show=options.show is not None or not options.json,
    )


def answers(targets: Sequence[str], question: Question) -> Iterator[Answer | Exception]:
    """Every test of the targets, in order: its answer, or what is wrong with it."""
    for target in targets:
        for source in sources(target):
            if isinstance(source, Source):
                yield from _answers_of(source, question)
            else:
                yield source


def _answers_of(source: Source, question: Question) -> Iterator[Answer | Exception]:
    tests = _attempt(partial(_tests, source, question))
    if isinstance(tests, Exception):
        yield tests
        return
    for test in tests:
        yield _attempt(partial(_answer, test, source, question))


def _attempt(work: Callable[[], T]) -> T | Exception:
    """What came of it, or what went wrong. That may be a bug of ours, which who prints reports as
    one: the other tests keep their answers all the same."""
    try:
        return work()
    except Exception as error:
        return error


def _tests(source: Source, question: Question) -> list[Test]:
    try:
        with alarm(_deadline(question)):
            return load(source.file)
    except BudgetExceeded as error:
        raise BudgetExceeded(f"{source.file}: {error} while it was read") from None


def _answer(test: Test, source: Source, question: Question) -> Answer:
    try:
        return Answer(source.given, _outcomes(test, question, guarded=True))
    except InputError as error:
        raise InputError(error.message, error.where or str(source.file)) from None


def _outcomes(test: Test, question: Question, guarded: bool = False) -> list[Outcome]:
    """One outcome a reading; the deciding one is worked on first, since the time is for all.

    `guarded` keeps the time also where nothing looks at the clock.
    """
    deadline = _deadline(question)
    found = {}
    for reading in sorted(question.readings, key=lambda one: one.name != arguments.DECIDING):
        guard = alarm(deadline) if guarded else nullcontext()
        found[reading.name] = _outcome(test, reading, question, deadline, guard)
    return [found[reading.name] for reading in question.readings]


def _outcome(
    test: Test,
    reading: Reading,
    question: Question,
    deadline: float | None,
    guard: AbstractContextManager[None],
) -> Outcome:
    started = time.monotonic()
    try:
        with guard:
            return explore(
                test,
                reading,
                engine=question.engine,
                property=question.property,
                bound=question.bound,
                deadline=deadline,
                show=question.show,
            )
    except BudgetExceeded as error:
        return Outcome(
            test,
            reading.isa,
            reading.name,
            question.engine,
            question.property,
            complete=False,
            cut=(str(error),),
            seconds=time.monotonic() - started,
        )


def _deadline(question: Question) -> float | None:
    return None if question.timeout is None else time.monotonic() + question.timeout


# --- files ----------------------------------------------------------------------------------------


def sources(target: str) -> Iterator[Source | InputError]:
    """The files of `FILE`, `DIR`, `@INDEX` or the NAME of a test of the corpus; in place of what
    has none, what is wrong with it."""
    if not target.startswith("@"):
        yield from _files(Path(target), target)
        return
    index = Path(target[1:])
    try:
        lines = _lines(_text(index))
    except InputError as error:
        yield error
        return
    if not lines:
        yield InputError("this index names no file", str(index))
    for line in lines:
        yield from _files(index.parent / line, line)


def _lines(text: str) -> list[str]:
    """The lines of an index that are not comments, without the comments at their ends."""
    lines = (f" {line}".split(" #")[0].strip() for line in text.splitlines())
    return [line for line in lines if line]


def _files(path: Path, given: str) -> Iterator[Source | InputError]:
    if not path.is_dir():
        if path.suffix in SUFFIXES or path.exists():
            yield Source(path, given)
        else:
            yield _of_the_corpus(given)
        return
    try:
        names = _tests_below(path)
    except OSError as error:
        yield _unreadable(error.filename, error)
        return
    if not names:
        yield InputError("no .litmus or .test files in this folder", str(path))
    yield from (Source(path / name, os.path.join(given, name)) for name in names)


def _of_the_corpus(name: str) -> Source | InputError:
    file = corpus_tests.find(name)
    if file is not None:
        return Source(file, name)
    hint = suggestion(name, [path.stem for path in corpus_tests.HOME.rglob("*.litmus")])
    return InputError(f"no such file or folder, and no test of the corpus{hint}", name)


def _tests_below(folder: Path) -> list[str]:
    """All tests in a folder and in its folders, by their paths from it. Errors: OSError."""
    return sorted(
        (Path(parent) / name).relative_to(folder).as_posix()
        for parent, _, names in os.walk(folder, onerror=_raise)
        for name in names
        if name.endswith(SUFFIXES)
    )


def _raise(error: OSError) -> NoReturn:
    raise error


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise _unreadable(file, error) from None
    except ValueError:
        raise InputError("not a text file", str(file)) from None


def _unreadable(file: str | Path, error: OSError) -> InputError:
    return InputError(f"cannot read it: {error.strerror or error}", str(file))
