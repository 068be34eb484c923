"""The values that a person writes on the command line, as plain data.

Every function takes the text of one option and raises `InputError` that names the option.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..model.program import InputError
from ..model.readings import DEFAULT_ISA, READINGS, Reading, reading_named

Value = int | float | bool | str | list[int]

DECIDING = "ptx"
"""The reading that decides if it is among those asked for."""

_INTEGER = re.compile(r"-?[0-9]{1,18}|0x[0-9a-fA-F]{1,16}")
_REAL = re.compile(r"-?[0-9]{1,18}\.[0-9]{0,18}(e[+-]?[0-9]{1,3})?")
_NAME = re.compile(r"[A-Za-z_$%][\w$%.]*", re.ASCII)
_WORDS: dict[str, Value] = {"true": True, "false": False}


def integer(text: str) -> int | None:
    """`text` as an integer, or None. Decimal, or hexadecimal with `0x`."""
    return int(text, 0 if text.startswith("0x") else 10) if _INTEGER.fullmatch(text) else None


def value(text: str) -> Value:
    """A number, `true`, `false`, a list of integers with commas, or else a word.

    Errors: InputError for nothing, and for a list of anything but integers.
    """
    if not text:
        raise InputError("expected a value after '='")
    if "," in text:
        return integers(text)
    if _REAL.fullmatch(text):
        return float(text)
    number = integer(text)
    return _WORDS.get(text, text) if number is None else number


def integers(text: str) -> list[int]:
    """`1,3,2` as a list. Errors: InputError."""
    numbers = [integer(item) for item in text.split(",")]
    if None in numbers:
        raise InputError(f"expected a list of integers such as 1,3,2, not {text!r}")
    return [number for number in numbers if number is not None]


def named(option: str, text: str) -> tuple[str, str]:
    """`NAME=TEXT` taken apart."""
    name, equals, rest = text.partition("=")
    if not equals or not _NAME.fullmatch(name):
        raise InputError(f"{option} {text}: expected NAME=VALUE")
    return name, rest


def settings(option: str, texts: Sequence[str]) -> dict[str, Value]:
    """All of one option's `NAME=VALUE`. Errors: InputError for a name given twice."""
    found: dict[str, Value] = {}
    for text in texts:
        name, rest = named(option, text)
        if name in found:
            raise InputError(f"{option} {text}: {name} is given twice")
        try:
            found[name] = value(rest)
        except InputError as error:
            raise InputError(f"{option} {text}: {error}") from None
    return found


def buffers(option: str, texts: Sequence[str]) -> dict[str, list[int]]:
    """`NAME=1,2,3`, or `NAME=FILE` with a text file of integers: the elements of buffers."""
    found: dict[str, list[int]] = {}
    for text in texts:
        name, rest = named(option, text)
        if name in found:
            raise InputError(f"{option} {text}: {name} is given twice")
        found[name] = _elements(option, rest)
    return found


def _elements(option: str, text: str) -> list[int]:
    if all(integer(item) is not None for item in text.split(",")):
        return integers(text)
    try:
        content = Path(text).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{option}: cannot read {text}: {error.strerror}") from None
    except ValueError:
        raise InputError(f"{option}: {text} is not a text file of integers") from None
    try:
        return integers(",".join(content.replace(",", " ").split()))
    except InputError as error:
        raise InputError(f"{option}: {text}: {error}") from None


def dimensions(option: str, text: str) -> tuple[int, int, int]:
    """`X`, `X,Y` or `X,Y,Z`, each at least 1."""
    numbers = [integer(item) for item in text.split(",")]
    if len(numbers) > 3 or not all(number and number > 0 for number in numbers):
        raise InputError(f"{option} {text}: expected X, X,Y or X,Y,Z, integers of at least 1")
    x, y, z = [number or 1 for number in numbers] + [1] * (3 - len(numbers))
    return x, y, z


def launch(options: argparse.Namespace) -> dict[str, Any]:
    """The launch of a .ptx file as keywords of `load_ptx`; only what was given."""
    found: dict[str, Any] = {}
    if options.entry:
        found["entry"] = options.entry
    for name in ("grid", "block", "cluster"):
        if getattr(options, name):
            found[name] = dimensions(f"--{name}", getattr(options, name))
    if options.param:
        found["parameters"] = settings("--param", options.param)
    if options.buffer:
        found["buffers"] = buffers("--buffer", options.buffer)
    return found


def readings(text: str, isa: str | None = None, assume: Sequence[str] = ()) -> list[Reading]:
    """The readings of a list such as `ptx,hardware`, or of `all`: each once, in that order."""
    names = [name.strip() for name in text.split(",")]
    chosen = dict.fromkeys(every for name in names for every in _expand(name))
    return [reading_named(name, isa or DEFAULT_ISA, tuple(assume)) for name in chosen]


def _expand(name: str) -> list[str]:
    return list(READINGS) if name == "all" else [name]
