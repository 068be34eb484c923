"""What can be written on the command line: commands, options, and help.

Prints nothing but help; imports no model: `lastread --version` must not wait for it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

Command = Callable[[argparse.Namespace], int]

_WITH_SEVERAL = (
    "With several readings `ptx` decides if it is among them, else the first one named.\n"
)

EPILOG = f"""\
exit status:
  0  nothing found (ordered)
  1  something found (race, deadlock, misuse)
  2  wrong usage, or input that cannot be read
  3  understood, but a bound or a budget stopped the answer (unknown)
{_WITH_SEVERAL}"""

LITMUS_EPILOG = f"""\
exit status:
  0  the condition holds; with --property termination: every run ends
  1  it does not
  2  wrong usage, or a test that cannot be read
  3  understood, but a bound or a budget stopped the answer (undecided)
Of several tests the worst decides: 2 before 3 before 1 before 0.
{_WITH_SEVERAL}"""


class UsageError(Exception):
    """A command line that makes no sense; the text is for the user."""


class VersionAsked(Exception):
    """`--version`: to be answered by who prints."""


def parse(argv: Sequence[str], commands: Mapping[str, Command]) -> argparse.Namespace:
    """The options of a command, with the function of that name as `command`. Targets may stand
    before, after and between options.

    Errors: UsageError; VersionAsked; SystemExit after help was printed.
    """
    parser = _parser(commands)
    options, rest = parser.parse_known_args(argv)
    if "targets" in options and not any(text.startswith("-") for text in rest):
        options.targets += rest
    elif rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return options


class _Parser(argparse.ArgumentParser):
    """Answers wrong usage with one line."""

    def __init__(self, **settings: Any) -> None:
        plain = argparse.RawDescriptionHelpFormatter
        super().__init__(formatter_class=plain, allow_abbrev=False, **settings)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see `{self.prog} --help`)")


class _Version(argparse.Action):
    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise VersionAsked


def _parser(commands: Mapping[str, Command]) -> argparse.ArgumentParser:
    parser = _Parser(
        prog="lastread",
        description="Can a GPU kernel overwrite a buffer before its last read?",
        epilog=EPILOG,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    add_command = parser.add_subparsers(required=True, metavar="COMMAND").add_parser
    for name, (describe, settings) in _COMMANDS.items():
        command = add_command(name, **settings)
        command.set_defaults(command=commands[name])
        describe(command)
    return parser


# --- the commands ---------------------------------------------------------------------------------


def _check(check: argparse.ArgumentParser) -> None:
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
    _reading(check, default="all")
    add(
        "--location",
        metavar="NAME",
        help="only findings that touch this array, or one element of it: A or A[i]",
    )
    add("--timeout", type=_seconds, metavar="SECONDS", help="stop each target after so long")
    add("--max-findings", type=_positive, metavar="N", help="keep at most N findings")
    add("--json", action="store_true", help="print one JSON object instead of the report")
    _launch(check.add_argument_group("launch of a .ptx file"))


def _launch(launch: argparse._ArgumentGroup) -> None:
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


def _litmus(litmus: argparse.ArgumentParser) -> None:
    add = litmus.add_argument
    add(
        "targets",
        nargs="+",
        metavar="FILE|DIR|@INDEX|NAME",
        help="a .litmus or .test file, a folder of them, @ and a file with one path a line, or the "
        "name of a test of the corpus (docs/corpus.md)",
    )
    _reading(litmus, default="ptx")
    add(
        "--engine",
        choices=("smt", "enumerate"),
        default="enumerate",
        help="how executions are found (default enumerate); both give the same answers",
    )
    add(
        "--property",
        choices=("condition", "termination"),
        default="condition",
        help="the test's condition (default), or: does every fair run end?",
    )
    add("--bound", type=_positive, metavar="N", help="let loops go round N times (default 1)")
    add("--timeout", type=_seconds, metavar="SECONDS", help="stop each test after so long")
    add("--json", action="store_true", help="print one JSON object instead of the report")
    add("--show", metavar="FILE.dot", help="draw an execution of each test, for Graphviz")


def _reading(command: argparse.ArgumentParser, default: str) -> None:
    add = command.add_argument
    add(
        "--reading",
        default=default,
        metavar="R[,R]",
        help=f"strict, ptx, hardware, or all (default {default})",
    )
    add("--isa", metavar="VERSION", help="PTX ISA version (default 9.4)")
    add(
        "--assume",
        action="append",
        default=[],
        metavar="NAME",
        help="add an assumption to the readings; no-NAME takes it away",
    )


def _diy(diy: argparse.ArgumentParser) -> None:
    add = diy.add_argument
    add(
        "targets",
        nargs="*",
        metavar="EDGE",
        help="the cycle: edges and annotations, such as PodWW Rel.gpu Rfe Acq.gpu PodRR Fre",
    )
    add("--name", metavar="NAME", help="the test's name (default: shape and what stands on it)")
    add(
        "--placement",
        metavar="P[+P]",
        help="how each thread stands to the one before: warp, cta, cluster, gpu or sys",
    )
    family = diy.add_argument_group("a family of random tests instead of one cycle")
    add = family.add_argument
    add("--family", type=_positive, metavar="COUNT", help="so many tests, of cycles and programs")
    add("--seed", type=int, default=0, metavar="S", help="a seed gives the same tests (default 0)")
    add("--threads", type=_positive, default=4, metavar="N", help="at most (default 4)")
    add("--events", type=_positive, default=12, metavar="N", help="at most (default 12)")
    add("-o", "--output", metavar="DIR", help="a file for each test in this folder")


def _list(_: argparse.ArgumentParser) -> None:
    """Nothing but the name."""


_COMMANDS: dict[str, tuple[Callable[[argparse.ArgumentParser], None], dict[str, Any]]] = {
    "check": (
        _check,
        {
            "help": "judge kernels: is every overwrite ordered after the last read?",
            "description": "Judges kernels: is every overwrite ordered after the last read?",
            "epilog": EPILOG,
        },
    ),
    "litmus": (
        _litmus,
        {
            "help": "run litmus tests: which outcomes does the PTX memory model allow?",
            "description": "Runs litmus tests: which outcomes does the PTX memory model allow?",
            "epilog": LITMUS_EPILOG,
        },
    ),
    "diy": (
        _diy,
        {
            "help": "make litmus tests from cycles of edges, or families of random ones",
            "description": "Makes litmus tests from cycles of edges; see docs/diy.md.",
        },
    ),
    "list": (
        _list,
        {
            "help": "the library kernels, with their parameters",
            "description": "Lists the library kernels, with their parameters and their purpose.",
        },
    ),
}


# --- values ---------------------------------------------------------------------------------------


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
