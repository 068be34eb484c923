"""The command line as a table: arguments, then exit status, standard output and standard error.

The kernels and the engine are stand-ins here; the real ones are run by the last section and by the
tests of the other packages.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from lastread.litmus import cli
from lastread.model.program import BudgetExceeded, InputError, Program
from lastread.model.readings import REGISTER_USE, Reading
from lastread.model.verdict import Finding, Place, Result

PLACE = Place("correction", 0, 4, "tcgen05.ld", 1, 41)
RACE = Finding(
    "race",
    "error",
    "corr[1]",
    6,
    PLACE,
    replace(PLACE, agent="softmax", instruction="tcgen05.st", tile=3, line=27),
    "overwrite-before-last-read",
)
KERNELS = {
    "ordered": {"strict": "ordered", "ptx": "ordered", "hardware": "ordered"},
    "racy": {"strict": "race", "ptx": "race", "hardware": "ordered"},
    "stuck": {"strict": "deadlock", "ptx": "deadlock", "hardware": "deadlock"},
    "cut": {"strict": "race", "ptx": "unknown", "hardware": "ordered"},
}


@dataclass
class Asked:
    """What the stand-ins were asked."""

    loads: list[tuple[str, dict[str, Any]]]
    checks: list[dict[str, Any]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Puts stand-ins for loading and checking in place."""
    record = Asked([], [])

    def load(name: str, /, **parameters: Any) -> Program:
        record.loads.append((name, parameters))
        if name == "endless":
            raise BudgetExceeded("more than 1000000 steps")
        if name == "crash":
            raise RuntimeError("a bug\nof ours")
        if name not in KERNELS:
            raise InputError(f"no kernel {name!r}; known: {', '.join(KERNELS)}")
        return Program(name, dict(parameters), [], {}, [])

    def check(program: Program, reading: Reading, **options: Any) -> Result:
        record.checks.append({"reading": reading, **options})
        if options.get("location") == "nowhere":
            raise InputError("no array named 'nowhere'")
        if program.parameters.get("tiles") == 1000:
            raise BudgetExceeded("more than 600 tiles")
        verdict = KERNELS[program.name][reading.name]
        return Result(
            program.name,
            program.parameters,
            reading.name,
            reading.isa,
            verdict,
            assumptions=(REGISTER_USE,),
            findings=(RACE,) if verdict == "race" else (),
        )

    monkeypatch.setattr("lastread.litmus.judging.load", load)
    monkeypatch.setattr("lastread.litmus.judging.check", check)
    return record


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(asked: Asked, real: Run) -> Run:
    """Runs the command on the stand-ins: exit status, standard output, standard error."""
    return real


@pytest.fixture
def real(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command on the real kernels with the real engine."""

    def command(*arguments: str) -> tuple[int, str, str]:
        status = cli.main(arguments)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return command


# --- exit status ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ("check ordered", 0),
        ("check racy", 1),
        ("check stuck", 1),
        ("check cut", 3),
        ("check endless", 3),
        ("check absent", 2),
        ("check racy --reading hardware", 0),
        ("check racy --reading hardware,strict", 0),
        ("check racy --reading strict,hardware", 1),
        ("check racy --reading hardware,ptx", 1),
        ("check cut --reading strict", 1),
        ("check ordered --set tiles=1000", 3),
        ("check ordered racy", 1),
        ("check racy cut", 3),
        ("check racy cut absent", 2),
        ("check absent ordered", 2),
        ("check ordered --set o=1 racy", 1),
        ("--version", 0),
        ("--help", 0),
        ("check --help", 0),
    ],
)
def test_exit_status(run: Run, arguments: str, status: int) -> None:
    assert run(*arguments.split())[0] == status


# --- bad input: one message, exit status 2, nothing on standard output ----------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "the following arguments are required: COMMAND"),
        ("chek racy", "invalid choice: 'chek'"),
        ("check", "the following arguments are required: TARGET"),
        ("check absent", "no kernel 'absent'; known: ordered"),
        ("check racy --for-all corr", "unrecognized arguments: --for-all"),
        ("check racy --html a.html", "unrecognized arguments: --html"),
        ("list racy", "unrecognized arguments: racy"),
        ("check racy --loc corr", "unrecognized arguments: --loc"),
        ("check racy --set corr", "--set corr: expected NAME=VALUE"),
        ("check racy --set =2", "--set =2: expected NAME=VALUE"),
        ("check racy --set corr=", "--set corr=: expected a value after '='"),
        ("check racy --set work=1,x", "--set work=1,x: expected a list of integers such as 1,3,2"),
        ("check racy --set work=1,", "expected a list of integers such as 1,3,2, not '1,'"),
        ("check racy --set o=1 --set o=2", "--set o=2: o is given twice"),
        ("check racy --reading loose", "unknown reading 'loose'; known: strict, ptx, hardware"),
        ("check racy --reading ptx,", "unknown reading ''; known: strict, ptx, hardware"),
        ("check racy --isa 5.0", "unknown ISA version '5.0'; known: 6.0"),
        ("check racy --assume luck", "unknown assumption 'luck'; known: acquire-wait"),
        ("check racy --location nowhere", "no array named 'nowhere'"),
        (
            "check racy --timeout soon",
            "argument --timeout: invalid number of seconds value: 'soon'",
        ),
        ("check racy --timeout 0", "argument --timeout: expected more than 0 seconds"),
        ("check racy --timeout nan", "argument --timeout: expected more than 0 seconds"),
        (
            "check racy --max-findings 0",
            "argument --max-findings: expected an integer of at least 1",
        ),
        ("check racy --block 128,0", "--block 128,0: expected X, X,Y or X,Y,Z"),
        ("check racy --block 1,2,3,4", "--block 1,2,3,4: expected X, X,Y or X,Y,Z"),
        ("check racy --block 128", "racy: --block is for .ptx files; a kernel takes --set"),
        ("check racy --param n=2", "racy: --param is for .ptx files; a kernel takes --set"),
        ("check a.ptx --set o=1", "a.ptx: --set is for kernels; a .ptx file takes --param"),
        ("check a.ptx --buffer t=/nowhere", "--buffer: cannot read /nowhere: No such file"),
        ("check a.ptx --buffer t=README.md", "--buffer: README.md: expected a list of integers"),
        ("check absent --json", "no kernel 'absent'"),
    ],
)
def test_bad_input(run: Run, arguments: str, message: str) -> None:
    status, out, err = run(*arguments.split())
    assert (status, out) == (2, "")
    assert message in err
    assert err.startswith("lastread: error: ")
    assert err.count("\n") == 1


def test_an_unreadable_target_does_not_hide_the_others(run: Run) -> None:
    status, out, err = run("check", "absent", "racy", "--json")
    assert status == 2
    assert {result["kernel"] for result in json.loads(out)["results"]} == {"racy"}
    assert "no kernel 'absent'" in err


def test_an_internal_error_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    status, out, err = run("check", "crash")
    assert (status, out) == (2, "")
    assert err == (
        "lastread: internal error: RuntimeError: a bug. Please report it with the command line; "
        "LASTREAD_DEBUG=1 shows where it happened.\n"
    )
    monkeypatch.setenv("LASTREAD_DEBUG", "1")
    assert "Traceback" in run("check", "crash")[2]


@pytest.mark.parametrize("error", [MemoryError(), RecursionError("maximum depth")])
def test_running_out_of_memory_or_stack_is_one_line(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr("lastread.litmus.judging.load", raising(error))
    status, out, err = run("check", "racy")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "too large or too deeply nested" in err


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (PermissionError(13, "Permission denied"), "racy: cannot read it: Permission denied"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), "racy: not a text file"),
    ],
)
def test_a_file_that_cannot_be_read(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: Exception, message: str
) -> None:
    monkeypatch.setattr("lastread.litmus.judging.load", raising(error))
    assert run("check", "racy") == (2, "", f"lastread: error: {message}\n")


def test_ctrl_c_ends_with_130(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lastread.litmus.judging.load", raising(KeyboardInterrupt()))
    assert run("check", "racy") == (130, "", "lastread: interrupted\n")


def raising(error: BaseException) -> Callable[..., Any]:
    def function(*_: object, **__: object) -> Any:
        raise error

    return function


# --- what is asked --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("o=2", 2),
        ("o=-1", -1),
        ("o=0x10", 16),
        ("fix=true", True),
        ("fix=false", False),
        ("work=1,3,2", [1, 3, 2]),
        ("backend=metal", "metal"),
        ("fix=True", "True"),
        ("o=1_000", "1_000"),
        ("o=" + "9" * 5000, "9" * 5000),
    ],
)
def test_values_of_set(run: Run, asked: Asked, text: str, value: object) -> None:
    run("check", "racy", "--set", text)
    ((_, parameters),) = asked.loads
    (got,) = parameters.values()
    assert (got, type(got)) == (value, type(value))


def test_the_engine_gets_reading_location_and_limits(run: Run, asked: Asked) -> None:
    options = (
        "--reading ptx --isa 9.3 --location corr[1] --timeout 5 --max-findings 7 "
        "--assume register-use-completes-load"
    )
    run("check", "racy", *options.split())
    (check,) = asked.checks
    assert check["reading"].isa == "9.3"
    assert check["reading"].holds(REGISTER_USE)
    assert check["location"] == "corr[1]"
    assert check["deadline"] > 0
    assert check["max_findings"] == 7


def test_all_three_readings_by_default_each_once_and_the_deciding_one_first(
    run: Run, asked: Asked
) -> None:
    run("check", "racy")
    run("check", "racy", "--reading", "hardware,all")
    names = [check["reading"].name for check in asked.checks]
    assert names == ["ptx", "strict", "hardware", "ptx", "hardware", "strict"]


def test_the_launch_of_a_ptx_file(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given: dict[str, Any] = {}

    def load_ptx(path: str, **launch: Any) -> Program:
        given.update(launch, path=path)
        return Program("racy", {}, [], {}, [])

    pytest.importorskip("lastread.kernels_abstract.ptx_program")
    monkeypatch.setattr("lastread.kernels_abstract.ptx_program.load_ptx", load_ptx)
    table = tmp_path / "table"
    table.write_text("1, 2\n3\n")
    launch = "--entry main --grid 2 --block 128,8 --param n=4 --param s=0.5"
    run("check", "k.ptx", *launch.split(), "--buffer", "pages=0,1,2", "--buffer", f"t={table}")
    assert given == {
        "path": "k.ptx",
        "entry": "main",
        "grid": (2, 1, 1),
        "block": (128, 8, 1),
        "parameters": {"n": 4, "s": 0.5},
        "buffers": {"pages": [0, 1, 2], "t": [1, 2, 3]},
    }


# --- output ---------------------------------------------------------------------------------------

RESULT_KEYS = [
    "kernel", "parameters", "reading", "isa", "assumptions", "scope", "verdict", "condition",
    "findings", "dropped_findings", "notes", "seconds",
]  # fmt: skip
FINDING_KEYS = [
    "kind", "hazard", "severity", "reason", "location", "count", "first", "second",
    "assumptions", "cycle",
]  # fmt: skip
PLACE_KEYS = ["agent", "cta", "warp", "instruction", "tile", "line"]


def test_json_is_one_object_with_the_keys_of_the_design(run: Run) -> None:
    _, out, err = run("check", "racy", "ordered", "--json")
    document = json.loads(out)
    assert err == ""
    assert list(document) == ["schema", "version", "results"]
    assert (document["schema"], document["version"]) == ("lastread.check", 1)
    assert [(r["kernel"], r["reading"]) for r in document["results"]] == [
        (kernel, reading)
        for kernel in ("racy", "ordered")
        for reading in ("strict", "ptx", "hardware")
    ]
    for result in document["results"]:
        assert list(result) == RESULT_KEYS
        assert result["scope"] == {"kind": "bounded", "bounds": {}}
    (finding,) = document["results"][1]["findings"]
    assert list(finding) == FINDING_KEYS
    assert list(finding["first"]) == list(finding["second"]) == PLACE_KEYS


@pytest.mark.parametrize("arguments", ["endless", "ordered --set tiles=1000"])
def test_a_spent_budget_is_unknown_and_says_why(run: Run, arguments: str) -> None:
    status, out, err = run("check", *arguments.split(), "--json")
    result = json.loads(out)["results"][1]
    assert (status, err, result["verdict"]) == (3, "", "unknown")
    assert result["notes"][0].startswith("more than")
    assert "more than" in run("check", *arguments.split())[1]


def test_the_time_limit_holds_where_nothing_looks_at_the_clock(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> Program:
        while True:
            pass

    monkeypatch.setattr("lastread.litmus.judging.load", never)
    status, out, _ = run("check", "racy", "--timeout", "0.01", "--json")
    assert status == 3
    assert json.loads(out)["results"][1]["notes"] == ["the time limit was reached"]


def test_the_report_is_plain_when_piped(run: Run) -> None:
    _, out, err = run("check", "racy")
    assert out.startswith("racy: race by a strict reading and by the PTX text, ordered on hardware")
    assert "\x1b" not in out
    assert err == ""


def test_no_traceback_from_a_closed_pipe() -> None:
    read, write = os.pipe()
    os.close(read)
    done = lastread("--version", stdout=write)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


def test_version() -> None:
    assert lastread("--version").stdout.startswith("lastread ")


def test_the_version_needs_no_heavy_import() -> None:
    code = (
        "import sys; from lastread.litmus.cli import main; main(['--version']);"
        "print(sorted({'rich', 'lark', 'z3', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def lastread(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    command: Sequence[str] = [sys.executable, "-m", "lastread.litmus", *arguments]
    return subprocess.run(command, text=True, check=False, **streams)


# --- the real kernels and the real engine ---------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ("check record_ring --location rec", 1),
        ("check record_ring --location rec[1] --set fix=true", 0),
        ("check record_ring --set fix=true --reading ptx,hardware --json", 0),
        ("list", 0),
    ],
)
def test_end_to_end(real: Run, arguments: str, status: int) -> None:
    got, out, err = real(*arguments.split())
    assert (got, err) == (status, "")
    assert out


def test_json_is_the_same_from_process_to_process_except_seconds() -> None:
    first, second = (lastread("check", "record_ring", "--json").stdout for _ in range(2))
    assert timeless(first) == timeless(second)


def timeless(text: str) -> list[dict[str, Any]]:
    return [{**result, "seconds": None} for result in json.loads(text)["results"]]


HEAD = "kernel k(n = 2)\ntmem a[n] columns 4\nmbarrier full[n] count 1\n"
AGENT = HEAD + "agent worker: 1 warp, cta 0\n"


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "k.kernel"),
        ("kernel", "k.kernel:1:"),
        (AGENT + "  tcgen05.ld x <- b[0]\n", "k.kernel:5:"),
        (AGENT + "  mbarrier.try_wait.parity ful[0], 0\n", "k.kernel:5:"),
        (AGENT + "  tcgen05.load x <- a[0]\n", "k.kernel:5:"),
        (AGENT + "  for t in 0..n\n", "k.kernel:"),
        (HEAD.replace("count 1", "count 0"), "k.kernel:3:"),
        (b"\x7fELF\x00\xff", "k.kernel"),
    ],
    ids=["empty", "cut", "array", "barrier", "instruction", "loop", "count", "binary"],
)
def test_a_bad_kernel_is_one_message_with_its_place(
    real: Run, text: str | bytes, where: str, tmp_path: Path
) -> None:
    path = tmp_path / "k.kernel"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    status, out, err = real("check", str(path))
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"lastread: error: {tmp_path}/{where}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("record_ring --set depth=2", "record_ring has no parameter `depth`"),
        ("record_ring --set tiles=1,2", "`tiles` takes an integer, not [1, 2]"),
        ("record_ring --set fix=1", "`fix` takes true or false, not 1"),
        ("record_ring --set corr=0", "corr >= 1"),
        ("record_ring --set name_or_path=1", "record_ring has no parameter `name_or_path`"),
        ("record_ring --location nowhere", "nowhere"),
        ("record_ring --location rec[7]", "rec[7]"),
        ("record_rign", "record_ring"),
        ("absent.kernel", "absent.kernel"),
        ("absent.ptx --block 32", "absent.ptx"),
        (".", "."),
    ],
)
def test_bad_parameters_and_names(real: Run, arguments: str, message: str) -> None:
    status, out, err = real("check", *arguments.split())
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("lastread: error: ")
    assert message in err
