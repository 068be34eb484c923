"""How mbarrier operations, asynchronous copies, wgmma and tcgen05 become statements.

(PTX ISA §9.7.15.16, §9.7.10, §9.7.17, §9.7.18.) Their locations are named in the
text; what is asynchronous about them is the engine's to know.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...model import instructions as ins
from ...model.axiomatic.code import (
    LOCATION_BYTES,
    AddressOf,
    Apply,
    Arguments,
    Given,
    Location,
    Operand,
    Read,
    Statement,
    Term,
)
from ...model.instructions import Instruction, Signal
from ...model.program import Region, Space
from .form import Form
from .memory import MOST_ARRIVALS

MOST_PENDING = 2**20 - 1
PRODUCT = Apply("mul", (Read(0), Read(1)))


# --- mbarrier -------------------------------------------------------------------------------------


def lower_init(form: Form) -> Statement:
    barrier = form.barrier(0)
    if barrier.count is not None:
        raise form.error(
            f"`{barrier.name}` has a count from the start; declare it `mbarrier {barrier.name}`",
            0,
        )
    count = form.number(1, 1, MOST_ARRIVALS, "the count of an mbarrier")
    return form.fixed(ins.MbarrierInit(barrier, count))


def lower_inval(form: Form) -> Statement:
    return form.fixed(ins.MbarrierInval(form.barrier(0)))


def lower_arrive(form: Form) -> Statement:
    count = form.number(1, 1, MOST_ARRIVALS, "a count of arrivals") if form.has(1) else 1
    sem, scope = form.use.sem, form.use.scope
    return form.fixed(ins.MbarrierArrive(form.barrier(0), count, sem=sem, scope=scope))


def lower_arrive_expect(form: Form) -> Statement:
    expected, sem, scope = transaction(form), form.use.sem, form.use.scope
    return form.fixed(ins.MbarrierArrive(form.barrier(0), 1, expected, sem=sem, scope=scope))


def lower_expect(form: Form) -> Statement:
    expected, sem, scope = transaction(form), form.use.sem, form.use.scope
    return form.fixed(ins.MbarrierArrive(form.barrier(0), 0, expected, sem=sem, scope=scope))


def lower_complete(form: Form) -> Statement:
    done, sem, scope = transaction(form), form.use.sem, form.use.scope
    return form.fixed(ins.MbarrierArrive(form.barrier(0), 0, 0, done, sem=sem, scope=scope))


def transaction(form: Form) -> int:
    return form.number(1, 1, MOST_ARRIVALS, "a count of bytes")


def lower_try_wait(form: Form) -> Statement:
    """Blocks until the phase of the parity is complete."""
    barrier, sem, scope = form.barrier(0), form.use.sem, form.use.scope
    parity = form.bounded(1, 0, 1, "a parity")

    def make(arguments: Arguments) -> Instruction:
        return ins.MbarrierTryWait(barrier, arguments.values[0] & 1, sem, scope)

    return form.act(make, operands=(parity,), shapes=(0,))


def lower_test_wait(form: Form) -> Statement:
    """Does not block: the register says whether it passed, and only then it orders (§9.7.15.16)."""
    barrier, sem, scope = form.barrier(1), form.use.sem, form.use.scope
    parity = form.bounded(2, 0, 1, "a parity")

    def make(arguments: Arguments) -> Instruction | None:
        given, passed = arguments.values
        return ins.MbarrierTryWait(barrier, given & 1, sem, scope) if passed else None

    result = form.register(0)
    return form.act(make, operands=(parity,), shapes=(0,), result=result, outcomes=(0, 1))


# --- copies ---------------------------------------------------------------------------------------


def on(
    form: Form,
    build: Callable[..., Instruction],
    locations: tuple[Location, ...],
    operands: tuple[Operand, ...] = (),
    writes: tuple[Term, ...] = (),
    result: str | None = None,
    returns: Term | None = None,
) -> Statement:
    """The instruction that `build` makes of the regions of `locations`, in their order.

    The regions come with the arguments: where a word lies is decided when the test is complete.
    """

    def make(arguments: Arguments) -> Instruction:
        return build(*(location.region for location in arguments.locations))

    names = tuple(AddressOf(location.name) for location in locations)
    return form.act(make, names, operands, writes, result, returns)


def lower_cp_async(form: Form) -> Statement:
    return on(form, ins.CpAsync, (form.named(0), form.named(1)), writes=(Read(0),))


def lower_wait_group(form: Form) -> Statement:
    return form.fixed(ins.CpAsyncWaitGroup(pending(form)))


def pending(form: Form) -> int:
    return form.number(0, 0, MOST_PENDING, "a count of pending groups")


def lower_cp_async_arrive(form: Form) -> Statement:
    return form.fixed(ins.CpAsyncMbarrierArrive(form.barrier(0), "noinc" in form.use.words))


def lower_bulk(form: Form) -> Statement:
    """cp.async.bulk: with an mbarrier a load into shared memory, without one a store from it."""
    loads = form.has(2)
    check_completion(form, loads)
    locations = form.named(0), form.named(1)
    check_direction(form, loads, locations)
    targets = (Signal(form.barrier(2), bytes=LOCATION_BYTES),) if loads else ()

    def build(destination: Region, source: Region) -> Instruction:
        return ins.BulkCopy((destination,), (source,), targets)

    return on(form, build, locations, writes=(Read(0),))


def check_completion(form: Form, loads: bool) -> None:
    """The completion mechanism in the opcode agrees with the operands."""
    if "bulk_group" in form.use.words and loads:
        raise form.error("a copy that completes by .bulk_group names no mbarrier", 2)
    if "mbarrier::complete_tx::bytes" in form.use.words and not loads:
        raise form.error("a copy that completes at an mbarrier names it as its third operand")


def check_direction(form: Form, loads: bool, locations: tuple[Location, ...]) -> None:
    """Shared memory is the destination of a load, and the source of a store to global memory."""
    wanted = (Space.SHARED, None) if loads else (Space.GLOBAL, Space.SHARED)
    rule = (
        "with an mbarrier the copy writes shared memory"
        if loads
        else "without an mbarrier the copy goes from shared to global memory"
    )
    for index, (location, space) in enumerate(zip(locations, wanted, strict=True)):
        if space not in (None, location.space):
            where = f"`{location.name}` is in {location.space.value} memory"
            raise form.error(f"{where}; {rule}", index)


def lower_bulk_wait(form: Form) -> Statement:
    return form.fixed(ins.BulkWaitGroup(pending(form), "read" in form.use.words))


def lower_st_async(form: Form) -> Statement:
    return async_store(form, Given(0), False)


def lower_red_async(form: Form) -> Statement:
    return async_store(form, Apply(form.use.choice, (Read(0), Given(0))), True)


def async_store(form: Form, written: Term, reduces: bool) -> Statement:
    signal = Signal(form.barrier(2), bytes=LOCATION_BYTES)

    def build(destination: Region) -> Instruction:
        return ins.StAsync(destination, signal, reduces)

    return on(form, build, (form.named(0),), (form.value(1),), (written,))


# --- wgmma ----------------------------------------------------------------------------------------


def lower_wgmma(form: Form) -> Statement:
    """The result is a register here: r := a·b."""
    sources = form.named(1), form.named(2)
    return on(form, ins.WgmmaMma, sources, result=form.register(0), returns=PRODUCT)


def lower_wgmma_wait(form: Form) -> Statement:
    return form.fixed(ins.WgmmaWaitGroup(pending(form)))


# --- tcgen05 --------------------------------------------------------------------------------------


def lower_alloc(form: Form) -> Statement:
    """The shared word, when one is named, gets the address of the tensor memory."""
    columns = form.named(0)
    if not form.has(1):
        return on(form, ins.Tcgen05Alloc, (columns,))
    locations = columns, form.named(1)
    return on(form, ins.Tcgen05Alloc, locations, (AddressOf(columns.name),), (Given(0),))


def lower_dealloc(form: Form) -> Statement:
    return on(form, ins.Tcgen05Dealloc, (form.named(0),))


def lower_tmem_load(form: Form) -> Statement:
    return on(form, ins.Tcgen05Ld, (form.named(1),), result=form.register(0), returns=Read(0))


def lower_tmem_store(form: Form) -> Statement:
    return on(form, ins.Tcgen05St, (form.named(0),), (form.value(1),), (Given(0),))


def lower_tmem_copy(form: Form) -> Statement:
    group, wide = cta_group(form), "4x256b" in form.use.words
    build = partial(ins.Tcgen05Cp, cta_group=group, wide=wide)
    return on(form, build, (form.named(0), form.named(1)), writes=(Read(0),))


def cta_group(form: Form) -> int:
    return 2 if "cta_group::2" in form.use.words else 1


def word_after(form: Form, prefix: str, default: str) -> str:
    """The value of a modifier `.prefix::value`."""
    found = (word for word in form.use.words if word.startswith(prefix))
    return next((word.removeprefix(prefix) for word in found), default)


def lower_mma(form: Form) -> Statement:
    """d := d + a·b, d := a·b with a last operand 0; without a and b, 1 is added."""
    if form.count == 2:
        raise form.error("`tcgen05.mma` takes `d` alone or `d, a, b`")
    accumulate = not form.has(3) or form.number(3, 0, 1, "whether D is added") == 1
    sources = (form.named(1), form.named(2)) if form.has(1) else ()
    group = cta_group(form)
    kind, shape = word_after(form, "kind::", "f16"), word_after(form, "shape::", "")

    def build(d: Region, *operands: Region) -> Instruction:
        a, b = operands[:1], operands[1:]
        return ins.Tcgen05Mma((d,), a, b, accumulate, group, shape, kind)

    return on(form, build, (form.named(0), *sources), writes=(mma(sources != (), accumulate),))


def mma(multiplies: bool, accumulate: bool) -> Term:
    """What D gets; the reads are A, B, then D when it is added to."""
    if not multiplies:
        return Apply("add", (Read(0), 1))
    return Apply("add", (Read(2), PRODUCT)) if accumulate else PRODUCT


def lower_commit(form: Form) -> Statement:
    barriers = tuple(form.barrier(index) for index in range(form.count))
    return form.fixed(ins.Tcgen05Commit(barriers, cta_group(form)))
