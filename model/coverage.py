"""What an answer does not cover, read off the program: for the report, and refusals."""

from __future__ import annotations

from collections.abc import Iterator

from . import instructions as ins
from .instructions import Role, Sem
from .program import InputError, Program
from .readings import Reading


def require_isa(program: Program, reading: Reading) -> None:
    """Errors: InputError for an instruction that the ISA version does not have."""
    for agent, step in program.steps():
        since = ins.since(step.instruction)
        if not reading.since(since):
            raise InputError(
                f"{step.instruction.text} of {agent.name} is not in ISA {reading.isa}; the model "
                f"has it since {since}",
                f"{program.path}:{step.source.line}" if program.path else "",
            )


def not_covered(program: Program) -> Iterator[str]:
    """Sentences about what this program does and the model leaves out."""
    if any(_touches_another_cta(program)):
        yield (
            "whether a CTA has started, or has not exited, when another CTA uses its memory is "
            "not checked"
        )
    kinds = {type(step.instruction) for _, step in program.steps()}
    if _has_stores(program) and ins.BulkWaitGroup not in kinds:
        yield "bulk stores that are not waited for before the kernel ends are not checked"
    if ins.Tcgen05Alloc in kinds and ins.Tcgen05Dealloc not in kinds:
        yield "tensor memory is allocated and not deallocated: that is not checked"
    if any(_is_flag(step.instruction) for _, step in program.steps()):
        yield (
            "release and acquire through memory (flags) is not followed: such accesses do not race "
            "with each other, and give no order"
        )


def _touches_another_cta(program: Program) -> Iterator[bool]:
    for agent, step in program.steps():
        for access in step.instruction.accesses:
            yield access.region.cta not in (-1, agent.cta)
        barrier = getattr(step.instruction, "barrier", None)
        yield barrier is not None and barrier.cta != agent.cta


def _has_stores(program: Program) -> bool:
    return any(
        isinstance(step.instruction, ins.BulkCopy) and not step.instruction.signals
        for _, step in program.steps()
    )


def _is_flag(instruction: ins.Instruction) -> bool:
    """A strong access that could publish or observe other data."""
    if not isinstance(instruction, (ins.Load, ins.Store, ins.Atomic)):
        return False
    strong = any(access.strong is not None for access in instruction.accesses)
    writes = any(access.role is not Role.READ for access in instruction.accesses)
    return strong and (instruction.sem not in (Sem.WEAK, Sem.RELAXED) or writes)
