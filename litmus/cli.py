"""The command `lastread`. Parse, one pure call, render: only this module prints or exits.

Imports are late where they cost: `lastread --version` must not wait for the model.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import IO, TYPE_CHECKING

from .options import Command, UsageError, VersionAsked, parse

if TYPE_CHECKING:
    from .judging import Judged
    from .running import Answer

NOTHING_FOUND, FOUND, BAD_INPUT, UNKNOWN = 0, 1, 2, 3
INTERRUPTED, BROKEN_PIPE = 130, 141
_STATUSES = {"ordered": NOTHING_FOUND, "unknown": UNKNOWN}
_HOLDS = {True: NOTHING_FOUND, False: FOUND, None: UNKNOWN}
_PRECEDENCE = (NOTHING_FOUND, FOUND, UNKNOWN, BAD_INPUT)
_DEBUG = "LASTREAD_DEBUG"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status. Never raises, never shows a traceback."""
    if argv is None:
        _heed_interrupts()
        _collect_seldom()
    try:
        status = _run(sys.argv[1:] if argv is None else argv)
        print(end="", flush=True)
        return status
    except KeyboardInterrupt:
        _complain("interrupted", prefix="")
        return INTERRUPTED
    except BrokenPipeError:
        _forget_stdout()
        return BROKEN_PIPE
    except OSError as error:
        _complain(f"{error.filename or 'output'}: {error.strerror or error}")
        _forget_stdout()
    except Exception as error:
        return _failed(error)
    return BAD_INPUT


def _collect_seldom() -> None:
    """Nearly all that is made lives until the end: to look for garbage, and at exit, is waste."""
    gc.set_threshold(100_000, 50, 50)
    atexit.register(gc.freeze)


def _heed_interrupts() -> None:
    """Ctrl-C ends the program at once, also while z3 works, which would catch the signal itself:
    the signal is blocked everywhere and awaited by a thread of its own."""
    if not hasattr(signal, "pthread_sigmask"):
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    threading.Thread(target=_await_interrupt, daemon=True).start()


def _await_interrupt() -> None:
    signal.sigwait({signal.SIGINT})
    _complain("interrupted", prefix="")
    os._exit(INTERRUPTED)


def _run(argv: Sequence[str]) -> int:
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    try:
        options = parse(argv, {"check": _check, "litmus": _litmus, "diy": _diy, "list": _list})
    except SystemExit as stop:
        return int(stop.code or 0)
    except VersionAsked:
        print(f"lastread {version()}")
        return NOTHING_FOUND
    except UsageError as error:
        _complain(str(error))
        return BAD_INPUT
    command: Command = options.command
    return command(options)


def version() -> str:
    """The version of the installed distribution."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("lastread")
    except PackageNotFoundError:
        return "(not installed)"


def _complain(message: str, prefix: str = "error: ") -> None:
    print(f"lastread: {prefix}{message}", file=sys.stderr)


def _failed(error: Exception) -> int:
    """Says what went wrong and returns the exit status that tells."""
    from ..model.program import BudgetExceeded, InputError

    if isinstance(error, InputError | BudgetExceeded):
        _complain(str(error))
    else:
        _internal_error(error)
    return UNKNOWN if isinstance(error, BudgetExceeded) else BAD_INPUT


def _internal_error(error: Exception) -> None:
    if os.environ.get(_DEBUG):
        import traceback

        traceback.print_exception(error)
    what = f"{type(error).__name__}: {error}".splitlines()[0]
    if isinstance(error, MemoryError | RecursionError):
        what = f"{type(error).__name__}: the input is too large or too deeply nested"
    _complain(
        f"{what}. Please report it with the command line; {_DEBUG}=1 shows where it happened.",
        prefix="internal error: ",
    )


def _forget_stdout() -> None:
    """What is still buffered has no reader: let the interpreter's last flush go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


# --- lastread check -------------------------------------------------------------------------------


def _check(options: argparse.Namespace) -> int:
    from ..model.program import InputError
    from .judging import judge, question_of

    question = question_of(options)
    answers: list[Judged] = []
    statuses: list[int] = []
    for target in options.targets:
        try:
            with _progress() as progress:
                answer = judge(target, question, progress)
        except InputError as error:
            _complain(str(error))
            statuses.append(BAD_INPUT)
            continue
        answers.append(answer)
        statuses.append(_STATUSES.get(answer.deciding.verdict, FOUND))
        if not options.json:
            _print_report(answer, first=len(answers) == 1)
    if options.json and answers:
        results = [result.as_json() for answer in answers for result in answer.results]
        _print_json("lastread.check", results)
    return max(statuses, key=_PRECEDENCE.index)


# --- lastread litmus ------------------------------------------------------------------------------


def _litmus(options: argparse.Namespace) -> int:
    from .running import answers, question_of

    question = question_of(options)
    given: list[Answer] = []
    statuses: list[int] = []
    with _drawing(options.show) as drawing:
        for answer in answers(options.targets, question):
            if isinstance(answer, Exception):
                statuses.append(_failed(answer))
                continue
            given.append(answer)
            statuses.append(_HOLDS[answer.deciding.holds])
            if not options.json:
                _print_outcomes(answer, first=len(given) == 1)
            _draw(answer, drawing)
    if options.json:
        _print_json("lastread.litmus", [each for answer in given for each in answer.as_json()])
    return max(statuses, key=_PRECEDENCE.index)


@contextmanager
def _drawing(path: str | None) -> Iterator[IO[str] | None]:
    """The file for pictures, if one is wanted."""
    with nullcontext() if path is None else open(path, "w", encoding="utf-8") as file:
        yield file


def _draw(answer: Answer, drawing: IO[str] | None) -> None:
    if drawing is not None:
        from .pictures import pictures

        drawing.writelines(pictures(outcome) for outcome in answer.outcomes)


def _print_outcomes(answer: Answer, first: bool) -> None:
    from .herd import herd

    blocks = "\n".join(herd(outcome) for outcome in answer.outcomes)
    print(blocks if first else "\n" + blocks, end="")


# --- lastread diy ---------------------------------------------------------------------------------


def _diy(options: argparse.Namespace) -> int:
    from ..model.program import InputError
    from .diy import family, generate

    if options.family is None:
        print(generate(options.targets, options.name, options.placement), end="")
        return NOTHING_FOUND
    if options.targets:
        raise InputError("--family makes its own cycles: leave out the edges, or --family")
    tests = family(options.seed, options.family, options.threads, options.events)
    for number, (name, text) in enumerate(tests):
        if options.output is None:
            print(text if number == 0 else f"\n{text}", end="")
        else:
            _write(options.output, f"{number:05d}-{name}.litmus", text)
    return NOTHING_FOUND


def _write(folder: str, name: str, text: str) -> None:
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name.replace("/", "_")), "w", encoding="utf-8") as file:
        file.write(text)


# --- output ---------------------------------------------------------------------------------------


def _print_json(schema: str, results: Sequence[Mapping[str, object]]) -> None:
    import json

    print(json.dumps({"schema": schema, "version": 1, "results": results}, indent=2))


def _print_report(answer: Judged, first: bool) -> None:
    from .report import as_text, console, report

    out = console(sys.stdout)
    lines = answer.program.lines if answer.program else []
    path = answer.program.path if answer.program else ""
    text = as_text(report(answer.results, answer.deciding, path, lines, out.width), out)
    print(text if first else "\n" + text, end="")


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Shows what is being done, on a terminal's standard error only."""
    if os.environ.get("NO_COLOR") or not sys.stderr.isatty():
        yield lambda text: None
        return
    from .report import console

    with console(sys.stderr).status("starting") as status:
        yield lambda text: status.update(text)


def _list(options: argparse.Namespace) -> int:
    from ..kernels_abstract import describe, names
    from .report import as_text, console, listing

    kernels = [describe(name) for name in names()]
    rows = [(kernel.name, kernel.purpose, kernel.parameters) for kernel in kernels]
    print(as_text(listing(rows), console(sys.stdout)), end="")
    return NOTHING_FOUND
