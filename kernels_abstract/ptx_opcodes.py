"""Which PTX opcodes are understood: one small handler each, found by the longest dotted prefix.

To add an opcode, write a function `handler(machine, instruction)` in ptx_data.py (computes
registers), ptx_access.py, ptx_copy.py (memory), ptx_sync.py, ptx_mbarrier.py (synchronisation)
or ptx_control.py (control flow, warps), and decorate it:

- `@data("add")`: writes registers only. May be executed on both sides of an unknown branch.
- `@effect("ld")`: accesses memory or is otherwise visible to other threads.
- `@control("bra")`: may move, block or end threads; it returns to the scheduler afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING

from ..model.program import InputError

if TYPE_CHECKING:
    from .ptx_run import Machine
    from .ptx_syntax import PtxInstruction

Function = Callable[["Machine", "PtxInstruction"], None]


class Kind(Enum):
    DATA = "data"
    EFFECT = "effect"
    CONTROL = "control"


@dataclass(frozen=True)
class Handler:
    function: Function
    kind: Kind


HANDLERS: dict[str, Handler] = {}

OUTSIDE = frozenset((
    "addc", "alloca", "bar", "barrier", "bmsk", "brkpt", "clusterlaunchcontrol", "cp",
    "createpolicy", "cvt.pack", "discard", "dp2a", "dp4a", "fence.proxy", "fns", "istypep",
    "ldmatrix", "ldu", "mad24", "madc", "match", "mbarrier", "mma", "movmatrix", "mul24",
    "multimem", "prefetch.tensormap", "red.async", "redux", "sad", "shfl", "st.async",
    "st.bulk", "stackrestore", "stacksave", "stmatrix", "subc", "suld", "suq", "sured",
    "sust", "szext", "tcgen05", "tensormap", "tex", "tld4", "txq", "vabsdiff", "vadd", "vmad",
    "vmax", "vmin", "vote", "vset", "vshl", "vshr", "vsub", "wgmma", "wmma",
))  # fmt: skip
"""Real PTX opcodes that have no handler: the answer is an error, never a guess."""


def data(*names: str) -> Callable[[Function], Function]:
    return _register(Kind.DATA, names)


def effect(*names: str) -> Callable[[Function], Function]:
    return _register(Kind.EFFECT, names)


def control(*names: str) -> Callable[[Function], Function]:
    return _register(Kind.CONTROL, names)


def _register(kind: Kind, names: tuple[str, ...]) -> Callable[[Function], Function]:
    def decorate(function: Function) -> Function:
        for name in names:
            HANDLERS[name] = Handler(function, kind)
        return function

    return decorate


def outside(machine: Machine, instruction: PtxInstruction) -> InputError:
    """The error for a form of an opcode that its handler does not cover."""
    where = machine.where(instruction)
    return InputError(f"instruction outside the model: {instruction.opcode}", where)


def handler_of(instruction: PtxInstruction, where: str) -> Handler:
    """The handler of an instruction, or an error that says why there is none."""
    found = _find(instruction.opcode)
    if isinstance(found, Handler):
        return found
    if found:
        raise InputError(f"instruction outside the model: {instruction.opcode}", where)
    raise InputError(f"unknown opcode: {instruction.opcode}", where)


@lru_cache(maxsize=4096)
def _find(opcode: str) -> Handler | bool:
    """The handler; True if the opcode exists but is outside the model, False if unknown."""
    parts = opcode.split(".")
    for length in range(len(parts), 0, -1):
        name = ".".join(parts[:length])
        if name in HANDLERS:
            return HANDLERS[name]
        if name in OUTSIDE:
            return True
    return False
