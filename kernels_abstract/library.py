"""The library of abstract kernels, and `load`: a name or a path -> `Program`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ..model.program import InputError, Program
from . import syntax
from .expand import expand
from .parser import parse
from .suggest import suggestion

FOLDER = Path(__file__).with_name("library")
SUFFIX = ".kernel"


@dataclass(frozen=True)
class Description:
    """A library kernel for `lastread list`."""

    name: str
    parameters: dict[str, object]
    purpose: str


def names() -> list[str]:
    """The library's kernels."""
    return sorted(path.stem for path in FOLDER.glob(f"*{SUFFIX}"))


def describe(name_or_path: str | os.PathLike[str]) -> Description:
    """A kernel's parameters with their defaults, and its purpose in a line."""
    kernel = read(name_or_path)
    defaults: dict[str, object] = {
        parameter.name: list(parameter.default)
        if isinstance(parameter.default, tuple)
        else parameter.default
        for parameter in kernel.parameters
    }
    return Description(kernel.name, defaults, kernel.purpose)


def load(name_or_path: str | os.PathLike[str], /, **parameters: object) -> Program:
    """A library kernel or a `.kernel` file, unrolled with `parameters` (defaults for the rest)."""
    return expand(read(name_or_path), parameters)


def read(name_or_path: str | os.PathLike[str]) -> syntax.Kernel:
    """The syntax tree of a library kernel or a file."""
    path = find(str(name_or_path))
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("not a text file (UTF-8); a kernel is text", str(path)) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", str(path)) from None
    return parse(text, str(path))


def find(name_or_path: str) -> Path:
    """Where the kernel is: the library knows names, everything else is a path."""
    if name_or_path in names():
        return FOLDER / f"{name_or_path}{SUFFIX}"
    if not name_or_path or "\0" in name_or_path:
        raise InputError("no kernel is named; `lastread list` shows the library's")
    path = Path(name_or_path)
    if not path.exists() and path.suffix != SUFFIX and path.name == name_or_path:
        raise InputError(f"no kernel or file is named `{name_or_path}`{_hint(name_or_path)}")
    return path


def _hint(name: str) -> str:
    if "=" in name:
        return f"; parameters are given with `--set {name}`"
    return suggestion(name, names()) or "; `lastread list` shows the library's"
