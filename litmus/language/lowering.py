"""How instructions on registers and generic memory become statements (PTX ISA §9.7.10, §9.7.15).

Each function lowers one family: a `Form` in, a `Statement` out. `opcodes.py` says which opcode uses
which. The asynchronous families are in `lowering_async.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...model import instructions as ins
from ...model.axiomatic.code import (
    Apply,
    Arguments,
    Arithmetic,
    Branch,
    Given,
    Move,
    Operand,
    Read,
    Statement,
    Term,
)
from ...model.instructions import Instruction, Proxy
from ...model.program import Space
from .form import Form

Lower = Callable[[Form], Statement]

BARRIERS = 16
"""Named barriers of a CTA (§9.7.15.1)."""
MOST_THREADS = 2048
WORD = 2**32


# --- registers ------------------------------------------------------------------------------------


def lower_move(form: Form) -> Statement:
    return Move(form.line.place, form.line.text, form.register(0), form.value(1))


def lower_arithmetic(form: Form, function: str) -> Statement:
    register, left, right = form.register(0), form.value(1), form.value(2)
    return Arithmetic(form.line.place, form.line.text, register, function, left, right)


def lower_branch(form: Form, comparison: str) -> Statement:
    left, right = form.value(0), form.value(1)
    return Branch(form.line.place, form.line.text, form.label(2), comparison, left, right)


def lower_goto(form: Form) -> Statement:
    return Branch(form.line.place, form.line.text, form.label(0))


# --- loads, stores, atomics -----------------------------------------------------------------------


def lower_load(form: Form, proxy: Proxy) -> Statement:
    """A load, whose source may be an address in a register."""
    address = form.address(1, proxy)
    sem, scope = form.use.sem, form.use.scope

    def make(arguments: Arguments) -> Instruction:
        location = arguments.locations[0]
        return ins.Load(location.region, "", sem, scope, proxy, location.view)

    return form.act(make, (address,), result=form.register(0), returns=Read(0))


def lower_load_or_move(form: Form) -> Statement:
    """`ld r, 5` and `ld r, r2` move: the peers' tests write moves so."""
    source = form.operand(1)
    bare = form.line.opcode == form.use.row.name
    register = form.names.is_register(source.name) and not form.names.memory.known(source.name)
    if bare and not source.bracketed and (source.number is not None or source.address or register):
        return lower_move(form)
    return lower_load(form, Proxy.GENERIC)


def lower_store(form: Form, proxy: Proxy) -> Statement:
    address = form.address(0, proxy)
    sem, scope = form.use.sem, form.use.scope

    def make(arguments: Arguments) -> Instruction:
        location = arguments.locations[0]
        return ins.Store(location.region, (), sem, scope, None, proxy, location.view)

    return form.act(make, (address,), (form.value(1),), (Given(0),))


def lower_atomic(form: Form, proxy: Proxy) -> Statement:
    """atom: the old value into the register."""
    return atomic(form, proxy, form.register(0), 1)


def lower_reduction(form: Form, proxy: Proxy) -> Statement:
    """red: atom that gives nothing back (§9.7.15)."""
    return atomic(form, proxy, None, 0)


def atomic(form: Form, proxy: Proxy, result: str | None, at: int) -> Statement:
    operation = form.use.choice
    wanted = at + (3 if operation == "cas" else 2)
    if form.count != wanted:
        values = "x, old, new" if operation == "cas" else "x, v"
        usage = f"{form.use.row.name}.{operation} {'r, ' if result is not None else ''}{values}"
        raise form.error(f"{form.counted}; the form is `{usage}`")
    address = form.address(at, proxy)
    operands = tuple(form.value(index) for index in range(at + 1, wanted))
    sem, scope = form.use.sem, form.use.scope
    returns = result is not None

    def make(arguments: Arguments) -> Instruction:
        location = arguments.locations[0]
        region, name = location.region, location.view
        return ins.Atomic(region, "", (), sem, scope, proxy, name, returns)

    value = Read(0) if returns else None
    return form.act(make, (address,), operands, (changed(operation),), result, value)


def changed(operation: str) -> Term:
    """What an atomic writes. A cas that fails writes the old value back, as the peers' does."""
    if operation == "exch":
        return Given(0)
    if operation == "cas":
        return Apply("select", (Apply("eq", (Read(0), Given(0))), Given(1), Read(0)))
    return Apply(operation, (Read(0), Given(0)))


# --- fences ---------------------------------------------------------------------------------------


def lower_fence(form: Form) -> Statement:
    return form.fixed(ins.Fence(form.use.sem, form.use.scope))


def lower_membar(form: Form) -> Statement:
    """membar is fence.sc of the scope (§9.7.15.4): .gl is the whole GPU."""
    scope = {"cta": ins.Scope.CTA, "gl": ins.Scope.GPU, "sys": ins.Scope.SYS}[form.use.choice]
    return form.fixed(ins.Fence(ins.Sem.SC, scope))


def lower_proxy_fence(form: Form) -> Statement:
    kind = form.use.choice
    return form.fixed(ins.FenceProxy(None if kind == "alias" else Proxy(kind)))


def lower_async_fence(form: Form) -> Statement:
    spaces = [Space(word.split("::")[0]) for word in form.use.words]
    if len(spaces) > 1:
        raise form.error("fence.proxy.async names one space, or none for all")
    return form.fixed(ins.FenceProxyAsync(spaces[0] if spaces else None))


def lower_fixed(form: Form, instruction: Instruction) -> Statement:
    return form.fixed(instruction)


# --- execution barriers ---------------------------------------------------------------------------


def lower_instance(form: Form, waits: bool) -> Statement:
    """The peers' `bar.cta`: instance I, barrier name ID, count N. One execution of the barrier."""
    instance = form.number(0, 0, WORD - 1, "the instance of bar.cta")
    operands: tuple[Operand, ...] = ()
    if form.has(1):
        operands = (form.value(1),)
    if form.has(2):
        operands = (*operands, form.bounded(2, 1, MOST_THREADS, "the count of threads"))
    return form.act(
        partial(instance_barrier, instance, waits, len(operands)),
        operands=operands,
        shapes=tuple(range(len(operands))),
        counted=("cta", "name", "")[len(operands)],
        instance=instance,
    )


def instance_barrier(instance: int, waits: bool, given: int, arguments: Arguments) -> Instruction:
    """Numbers above those of PTX's named barriers, one for each instance and name."""
    name = arguments.values[0] + WORD if given else 0
    threads = arguments.values[1] if given == 2 else arguments.everyone
    number = BARRIERS + instance * 3 * WORD + name
    return ins.Bar(number, threads, waits, rearms=False)


def lower_barrier(form: Form, waits: bool) -> Statement:
    """PTX's bar.sync and bar.arrive: a named barrier of the CTA, which re-arms."""
    operands: tuple[Operand, ...] = (form.bounded(0, 0, BARRIERS - 1, "the barrier's number"),)
    if form.has(1):
        operands = (*operands, form.bounded(1, 1, MOST_THREADS, "the count of threads"))
    everyone = not form.has(1)

    def make(arguments: Arguments) -> Instruction:
        threads = arguments.everyone if everyone else arguments.values[1]
        return ins.Bar(arguments.values[0], threads, waits, everyone=everyone)

    shapes = tuple(range(len(operands)))
    return form.act(make, operands=operands, shapes=shapes, counted="cta" if everyone else "")


def lower_warp_barrier(form: Form) -> Statement:
    """bar.warp.sync: all threads of the test in the warp, whatever the mask, as one thread of the
    test is no particular lane."""
    if form.has(0):
        form.value(0)
    return form.fixed(ins.BarWarpSync())


def lower_cluster_arrive(form: Form) -> Statement:
    return form.fixed(ins.ClusterArrive(form.use.sem))


def lower_cluster_wait(form: Form) -> Statement:
    return form.fixed(ins.ClusterWait(form.use.sem))
