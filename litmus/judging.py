"""One question, asked of one target after the other: kernels and engine behind `lastread check`.

Pure but for the files that a target names: it neither prints nor exits.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..kernels_abstract import load
from ..model import check
from ..model.program import BudgetExceeded, InputError, Program
from ..model.readings import Reading
from ..model.verdict import Result
from . import arguments
from .alarm import alarm


@dataclass(frozen=True)
class Question:
    """What is asked of every target."""

    readings: Sequence[Reading]
    parameters: dict[str, Any]
    launch: dict[str, Any]
    location: str | None
    timeout: float | None
    limits: dict[str, Any]


@dataclass(frozen=True)
class Judged:
    """One target with its results, one a reading. Without a program nothing could be checked."""

    results: list[Result]
    program: Program | None

    @property
    def deciding(self) -> Result:
        """`ptx` if it is among the readings, else the first one named."""
        return next((r for r in self.results if r.reading == arguments.DECIDING), self.results[0])


def question_of(options: argparse.Namespace) -> Question:
    """Errors: InputError for an option that no target could make sense of."""
    limit = options.max_findings
    return Question(
        readings=arguments.readings(options.reading, options.isa, options.assume),
        parameters=arguments.settings("--set", options.set),
        launch=arguments.launch(options),
        location=options.location,
        timeout=options.timeout,
        limits={} if limit is None else {"max_findings": limit},
    )


def judge(target: str, question: Question, progress: Callable[[str], None]) -> Judged:
    """All readings of one target. Errors: InputError."""
    started = time.monotonic()
    deadline = None if question.timeout is None else started + question.timeout
    progress(f"{target}: loading")
    try:
        with alarm(deadline):
            program = _load(target, question)
    except BudgetExceeded as error:
        given = dict(question.parameters)
        return Judged([_stopped(target, given, r, error, started) for r in question.readings], None)
    results = {}
    for reading in sorted(
        question.readings, key=lambda reading: reading.name != arguments.DECIDING
    ):
        progress(f"{target}: {reading.name}")
        results[reading.name] = _judge_reading(program, reading, question, deadline, progress)
    return Judged([results[reading.name] for reading in question.readings], program)


def _judge_reading(
    program: Program,
    reading: Reading,
    question: Question,
    deadline: float | None,
    progress: Callable[[str], None],
) -> Result:
    started = time.monotonic()
    try:
        with alarm(deadline):
            return check(
                program,
                reading,
                location=question.location,
                deadline=deadline,
                progress=lambda text: progress(f"{program.name}, {reading.name}: {text}"),
                **question.limits,
            )
    except BudgetExceeded as error:
        return _stopped(program.name, program.parameters, reading, error, started)


def _stopped(
    kernel: str,
    parameters: dict[str, object],
    reading: Reading,
    reason: BudgetExceeded,
    started: float,
) -> Result:
    return Result(
        kernel=kernel,
        parameters=parameters,
        reading=reading.name,
        isa=reading.isa,
        verdict="unknown",
        complete=False,
        notes=(str(reason),),
        seconds=time.monotonic() - started,
    )


def _load(target: str, question: Question) -> Program:
    """The program of a kernel's name or file. Errors: InputError, BudgetExceeded."""
    try:
        return (_load_ptx if target.endswith(".ptx") else _load_kernel)(target, question)
    except UnicodeDecodeError:
        raise InputError("not a text file", target) from None
    except OSError as error:
        raise InputError(f"cannot read it: {error.strerror or error}", target) from None


def _load_kernel(target: str, question: Question) -> Program:
    if question.launch:
        given = ", ".join(f"--{_OPTIONS.get(name, name)}" for name in question.launch)
        raise InputError(f"{given} is for .ptx files; a kernel takes --set", target)
    return load(target, **question.parameters)


_OPTIONS = {"parameters": "param", "buffers": "buffer"}
"""Options whose name is not that of the keyword of `load_ptx`."""


def _load_ptx(target: str, question: Question) -> Program:
    if question.parameters:
        raise InputError("--set is for kernels; a .ptx file takes --param", target)
    from ..kernels_abstract.ptx_program import load_ptx

    return load_ptx(target, **question.launch)
