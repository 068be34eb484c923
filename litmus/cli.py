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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from ..model.verdict import Result
    from .judging import Judged

NOTHING_FOUND, FOUND, BAD_INPUT, UNKNOWN = 0, 1, 2, 3
INTERRUPTED, BROKEN_PIPE = 130, 141
_STATUSES = {"ordered": NOTHING_FOUND, "unknown": UNKNOWN}
_PRECEDENCE = (NOTHING_FOUND, FOUND, UNKNOWN, BAD_INPUT)
_DEBUG = "LASTREAD_DEBUG"

EPILOG = """\
exit status:
  0  nothing found (ordered)
  1  something found (race, deadlock, misuse)
  2  wrong usage, or input that cannot be read
  3  understood, but a bound or a budget stopped the answer (unknown)
With several readings `ptx` decides if it is among them, else the first one named.
"""


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
        _failed(error)
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
        options = _parse(argv)
    except SystemExit as stop:
        return int(stop.code or 0)
    command: Callable[[argparse.Namespace], int] = options.command
    return command(options)


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    """The options of a command; targets may stand before, after and between its options.

    Errors: SystemExit, after a message.
    """
    parser = _parser()
    options, rest = parser.parse_known_args(argv)
    if "targets" in options and not any(text.startswith("-") for text in rest):
        options.targets += rest
    elif rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return options


def _complain(message: str, prefix: str = "error: ") -> None:
    print(f"lastread: {prefix}{message}", file=sys.stderr)


def _failed(error: Exception) -> None:
    from ..model.program import InputError

    if isinstance(error, InputError):
        _complain(str(error))
    else:
        _internal_error(error)


def _internal_error(error: Exception) -> None:
    if os.environ.get(_DEBUG):
        import traceback

        traceback.print_exc()
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


# --- the parser -----------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    """Answers wrong usage with one line."""

    def error(self, message: str) -> NoReturn:
        _complain(f"{message} (see `{self.prog} --help`)")
        raise SystemExit(BAD_INPUT)


class _Version(argparse.Action):
    """Prints the version of the installed distribution, which is looked up only here."""

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        print(f"lastread {version()}")
        raise SystemExit(NOTHING_FOUND)


def version() -> str:
    """The version of the installed distribution."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("lastread")
    except PackageNotFoundError:
        return "(not installed)"


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="lastread",
        description="Can a GPU kernel overwrite a buffer before its last read?",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_check(commands)
    _add_list(commands)
    return parser


def _add_check(commands: argparse._SubParsersAction[_Parser]) -> None:
    check = commands.add_parser(
        "check",
        help="judge kernels: is every overwrite ordered after the last read?",
        description="Judges kernels: is every overwrite ordered after the last read?",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    check.set_defaults(command=_check)
    add = check.add_argument
    add(
        "targets",
        nargs="+",
        metavar="TARGET",
        help="a library kernel (`lastread list`), a .kernel file, or a .ptx file",
    )
    add(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a kernel parameter: integer, true|false, list 1,3,2, or word",
    )
    add("--reading", default="all", metavar="R[,R]", help="strict, ptx, hardware, or all (default)")
    add("--isa", metavar="VERSION", help="PTX ISA version (default 9.4)")
    add(
        "--assume",
        action="append",
        default=[],
        metavar="NAME",
        help="add an assumption to the readings; no-NAME takes it away",
    )
    add(
        "--location",
        metavar="NAME",
        help="only findings that touch this array, or one element of it: A or A[i]",
    )
    add("--timeout", type=_seconds, metavar="SECONDS", help="stop each target after so long")
    add("--max-findings", type=_positive, metavar="N", help="keep at most N findings")
    add("--json", action="store_true", help="print one JSON object instead of the report")
    launch = check.add_argument_group("launch of a .ptx file")
    launch.add_argument("--entry", metavar="NAME", help="the kernel in the file")
    for name in ("grid", "block", "cluster"):
        launch.add_argument(f"--{name}", metavar="X[,Y[,Z]]", help=f"{name} dimensions")
    launch.add_argument(
        "--param",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="the value of a kernel parameter",
    )
    launch.add_argument("--buffer", action="append", default=[], metavar="NAME=FILE|LIST",
                        help="what the buffer of a pointer parameter holds")  # fmt: skip


def _add_list(commands: argparse._SubParsersAction[_Parser]) -> None:
    listing = commands.add_parser(
        "list",
        help="the library kernels, with their parameters",
        description="Lists the library kernels, with their parameters and their purpose.",
        allow_abbrev=False,
    )
    listing.set_defaults(command=_list)


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"expected more than 0 seconds, not {text}")
    return seconds


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected an integer of at least 1, not {text}")
    return number


_seconds.__name__ = "number of seconds"
_positive.__name__ = "integer"


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
        _print_json([result for answer in answers for result in answer.results])
    return max(statuses, key=_PRECEDENCE.index)


# --- output ---------------------------------------------------------------------------------------


def _print_json(results: Sequence[Result]) -> None:
    import json

    document = {
        "schema": "lastread.check",
        "version": 1,
        "results": [result.as_json() for result in results],
    }
    print(json.dumps(document, indent=2))


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
