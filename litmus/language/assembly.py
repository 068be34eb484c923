"""A script of names becomes a `Test`: memory, threads, then the condition over both."""

from __future__ import annotations

from dataclasses import replace

from ...model.axiomatic.code import (
    TRUE,
    AddressOf,
    Operand,
    Statement,
    Test,
    Thread,
)
from ...model.suggest import suggestion
from .conditions import Naming, condition_of, quantity_of
from .form import Form, Names, shape_of
from .memory import Memory
from .modifiers import Illegal
from .opcodes import Use, use_of
from .placement import Seat, seats_of
from .syntax import (
    Alias,
    Code,
    Declaration,
    Label,
    Line,
    Mistake,
    RegisterInitial,
    Script,
)


def assemble(script: Script, path: str, text: str) -> Test:
    """The test, or a `Mistake` with its place."""
    seats = seats_of(script.columns)
    memory = Memory(seats)
    initials = [item for item in script.settings if isinstance(item, RegisterInitial)]
    declare_all(script, memory)
    registers = {seat.name: registers_of(seat, initials, seats, memory) for seat in seats}
    threads = tuple(
        thread_of(seat, code, registers[seat.name], memory)
        for seat, code in zip(seats, script.code, strict=True)
    )
    check_barriers(script, memory)
    plain = Test(
        name=script.name,
        threads=threads,
        locations=memory.locations(),
        quantifier=script.quantifier,
        condition=TRUE,
        barriers=tuple(memory.barriers.values()),
        path=path,
        text=text,
        description=script.description,
        condition_text=script.condition_text,
        expectations=script.expectations,
    )
    return asked(script, plain, registers)


def asked(script: Script, test: Test, registers: dict[str, dict[str, Operand]]) -> Test:
    """The test with its condition, whose names must exist by now."""
    known = {
        thread.name: frozenset(registers[thread.name]) | destinations(code)
        for thread, code in zip(test.threads, script.code, strict=True)
    }
    naming = Naming(test, known)
    shown = [quantity_of(node, naming) for node in script.shown]
    return replace(
        test,
        condition=condition_of(script.condition, naming),
        filter=TRUE if script.filter is None else condition_of(script.filter, naming),
        shown=tuple(dict.fromkeys(each for each in shown if not isinstance(each, int))),
    )


# --- the init block -------------------------------------------------------------------------------


def declare_all(script: Script, memory: Memory) -> None:
    for item in script.settings:
        if isinstance(item, Declaration):
            memory.declare(item)
        elif isinstance(item, Alias):
            memory.alias(item)


def registers_of(
    seat: Seat, initials: list[RegisterInitial], seats: tuple[Seat, ...], memory: Memory
) -> dict[str, Operand]:
    """The registers that the init block gives this thread."""
    names = [other.name for other in seats]
    found: dict[str, Operand] = {}
    for item in initials:
        name = thread_named(item.thread, names)
        if name is None:
            raise Mistake(item.place, no_thread(item.thread, names))
        if name == seat.name:
            if item.register in found:
                raise Mistake(item.place, f"`{name}:{item.register}` is set twice")
            found[item.register] = initial_value(item, memory)
    return found


def initial_value(item: RegisterInitial, memory: Memory) -> Operand:
    """A number, or the address of a location (`&x`, or `x` where the name is a location)."""
    value = item.value
    if value.number is not None:
        return value.number
    if not value.address and not memory.known(value.name):
        hint = suggestion(value.name, memory.names)
        raise Mistake(value.place, f"`{value.name}` is no location that was declared{hint}")
    return AddressOf(memory.find(value.name, value.place).name)


def thread_named(name: str, names: list[str]) -> str | None:
    """`P0`, or `0` for it."""
    full = f"P{name}" if name.isdecimal() else name
    return full if full in names else None


def no_thread(name: str, names: list[str]) -> str:
    return f"no thread `{name}`; the threads are {', '.join(names)}"


def check_barriers(script: Script, memory: Memory) -> None:
    """An mbarrier without a count is initialised by some thread."""
    initialised = {
        line.operands[0].name
        for code in script.code
        for line in code
        if isinstance(line, Line) and line.opcode.startswith("mbarrier.init")
    }
    for barrier in memory.barriers.values():
        if barrier.count is None and barrier.name not in initialised:
            raise Mistake(
                memory.declared[barrier.name],
                f"nothing initialises `{barrier.name}`: a thread executes `mbarrier.init "
                f"{barrier.name}, N`, or it is declared `mbarrier {barrier.name} count N`",
            )


# --- threads --------------------------------------------------------------------------------------


def thread_of(seat: Seat, code: Code, initial: dict[str, Operand], memory: Memory) -> Thread:
    names = Names(seat.name, frozenset(initial) | destinations(code), labels_of(code), memory)
    statements = tuple(statement_of(line, names) for line in code if isinstance(line, Line))
    given = tuple((name, value) for name, value in initial.items() if value != 0)
    return Thread(seat.name, statements, seat.warp, seat.cta, seat.cluster, seat.gpu, given)


def statement_of(line: Line, names: Names) -> Statement:
    form = Form(line, used(line), names)
    form.check_count()
    return form.use.row.lower(form)


def used(line: Line) -> Use:
    try:
        return use_of(line.opcode)
    except Illegal as error:
        raise Mistake(line.place, str(error)) from None


def destinations(code: Code) -> frozenset[str]:
    """The registers that some instruction of the thread sets."""
    found = set()
    for line in code:
        if isinstance(line, Line):
            kinds = shape_of(used(line).row.operands).kinds
            if kinds[:1] == "r" and line.operands and line.operands[0].number is None:
                found.add(line.operands[0].name)
    return frozenset(found)


def labels_of(code: Code) -> dict[str, int]:
    """Each label with the index of the statement that follows it."""
    labels: dict[str, int] = {}
    index = 0
    for item in code:
        if isinstance(item, Label):
            if item.name in labels:
                raise Mistake(item.place, f"two labels `{item.name}` in one thread")
            labels[item.name] = index
        else:
            index += 1
    return labels
