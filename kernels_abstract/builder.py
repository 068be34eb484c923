"""Kernels written in Python: what `KernelBuilder` collects is the text of a kernel.

    kernel = KernelBuilder("record_ring", tiles=8, corr=2)
    kernel("tmem rec[corr]")
    kernel("mbarrier full[corr] count 128, empty[corr] count 128")
    with kernel.block("agent softmax: 4 warps, cta 0"):
        with kernel.block("for t in 0..tiles"):
            kernel("mbarrier.try_wait.parity empty[t % corr], ((t / corr) & 1) ^ 1")
            kernel("tcgen05.st rec[t % corr]")
    program = kernel.program(corr=3)

Python's own loops, functions and f-strings stand in for the language's where they are handier. The
power is the same because the language is the same; findings point into `kernel.text`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..model.program import Program
from . import syntax
from .expand import expand
from .parser import parse

INDENT = "  "


class KernelBuilder:
    """Collects declarations and statements, line by line."""

    def __init__(self, name: str, **parameters: int | bool | str | Sequence[int]) -> None:
        """A parameter's value is its default; a string lists words, as in `"cuda | metal"`."""
        self.name = name
        defaults = ", ".join(f"{key} = {default(value)}" for key, value in parameters.items())
        self._lines = [f"kernel {name}({defaults})"]
        self._depth = 0

    def __call__(self, *lines: str) -> None:
        """Add declarations, or statements of the open block."""
        self._lines += [INDENT * self._depth + line for line in lines]

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """`agent ...`, `def ...`, `for ...`, `if ...`, `branch ...`: what is added inside it."""
        self(header)
        self._depth += 1
        yield
        self._depth -= 1

    @property
    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def kernel(self) -> syntax.Kernel:
        """The syntax tree."""
        return parse(self.text, f"<{self.name}>")

    def program(self, **parameters: object) -> Program:
        """The kernel unrolled with `parameters`, and defaults for the others."""
        return expand(self.kernel(), parameters)


def default(value: int | bool | str | Sequence[int]) -> str:
    """A Python value as the language writes it."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | str():
            return str(value)
    return f"[{', '.join(map(str, value))}]"
