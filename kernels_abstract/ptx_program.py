"""PTX to `Program`: one agent a thread, with the memory and synchronisation steps it executes."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path

from ..model.program import Agent, InputError, Program, Region
from .ptx_launch import WARP, Launch, Shape, size_of
from .ptx_parser import parse_ptx, place
from .ptx_run import Machine
from .ptx_syntax import Address, Entry, Module, PtxInstruction, Register, Symbol

MAX_BYTES = 64 << 20
MAX_THREADS = 1024
MAX_CLUSTER = 16

_CARRIES_ADDRESS = ("mov", "add", "sub", "mad", "cvta", "selp", "or", "cvt")


def load_ptx(
    path: str | Path,
    entry: str | None = None,
    grid: Sequence[int] = (1, 1, 1),
    block: Sequence[int] | None = None,
    cluster: Sequence[int] = (1, 1, 1),
    parameters: Mapping[str, int | float | str] | None = None,
    buffers: Mapping[str, Sequence[int]] | None = None,
) -> Program:
    """Execute a kernel's first block (or cluster) and return the steps of its threads.

    `parameters` gives scalars their values; for a pointer, a name for its buffer. `buffers` gives
    contents of buffers, counted in accesses.
    """
    return program_of_ptx(
        read_text(path), str(path), entry, grid, block, cluster, parameters, buffers
    )


def read_text(path: str | Path) -> str:
    """The text of a file, or an error that says why there is none."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise InputError(error.strerror or "cannot be read", str(path)) from None
    if len(content) > MAX_BYTES:
        raise InputError(f"larger than {MAX_BYTES >> 20} MiB", str(path))
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError("this is a binary (a cubin?), not PTX text", str(path)) from None


def program_of_ptx(
    text: str,
    path: str = "",
    entry: str | None = None,
    grid: Sequence[int] = (1, 1, 1),
    block: Sequence[int] | None = None,
    cluster: Sequence[int] = (1, 1, 1),
    parameters: Mapping[str, int | float | str] | None = None,
    buffers: Mapping[str, Sequence[int]] | None = None,
) -> Program:
    """As `load_ptx`, from text."""
    module = parse_ptx(text, path)
    kernel = choose_entry(module, entry)
    launch = _launch(module, kernel, grid, block, cluster, parameters or {}, buffers or {})
    machine = Machine(kernel, module.variables, launch, path)
    with _no_garbage_collection():
        machine.run()
    return _program(machine, module, kernel, launch)


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """A run makes many objects and no cycles: looking for garbage is a quarter of its time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def choose_entry(module: Module, name: str | None) -> Entry:
    names = ", ".join(module.entries)
    if not module.entries:
        raise InputError("the file contains no .entry with a body", module.path)
    if name is None and len(module.entries) > 1:
        raise InputError(f"several entries, choose one with --entry: {names}", module.path)
    if name is not None and name not in module.entries:
        raise InputError(f"there is no entry {name}; there is {names}", module.path)
    return module.entries[name if name is not None else next(iter(module.entries))]


# --- launch --------------------------------------------------------------------------------------


def _launch(
    module: Module,
    entry: Entry,
    grid: Sequence[int],
    block: Sequence[int] | None,
    cluster: Sequence[int],
    parameters: Mapping[str, int | float | str],
    buffers: Mapping[str, Sequence[int]],
) -> Launch:
    shape = _block_shape(module, entry, block)
    cluster_shape = _shape("cluster", cluster)
    grid_shape = _shape("grid", grid)
    if size_of(cluster_shape) > MAX_CLUSTER:
        raise InputError(f"a cluster has at most {MAX_CLUSTER} blocks", module.path)
    grid_shape = _at_least(grid_shape, cluster_shape)
    if any(g % c for g, c in zip(grid_shape, cluster_shape, strict=True)):
        raise InputError(
            f"grid {grid_shape} is no multiple of cluster {cluster_shape}", module.path
        )
    known = {parameter.name for parameter in entry.parameters}
    for name in parameters:
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise InputError(f"no parameter {name}; the kernel has {listed}", module.path)
    pointers = _pointers(entry, parameters)
    for name in buffers:
        if name not in pointers and name not in pointers.values():
            listed = ", ".join(dict.fromkeys(pointers.values())) or "none"
            raise InputError(f"no buffer {name}; the kernel has {listed}", module.path)
    contents = {pointers.get(name, name): list(values) for name, values in buffers.items()}
    where = place(module.path, entry.line)
    values = {n: _number(n, v, where) for n, v in parameters.items() if n not in pointers}
    return Launch(grid_shape, shape, cluster_shape, values, pointers, contents)


def _number(name: str, value: object, where: str) -> int | float:
    """The value of a scalar parameter; text is read as a number, `0x10` and `1e-3` included."""
    if isinstance(value, int | float):
        return value
    for convert in (lambda text: int(text, 0), float):
        try:
            return convert(str(value))
        except ValueError:
            continue
    raise InputError(f"parameter {name} needs a number, not {value!r}", where)


def _shape(what: str, numbers: Sequence[int]) -> Shape:
    if not 1 <= len(numbers) <= 3 or any(number < 1 for number in numbers):
        raise InputError(f"{what} is up to three positive numbers, not {tuple(numbers)}")
    x, y, z = (*numbers, 1, 1)[:3]
    return (x, y, z)


def _at_least(grid: Shape, cluster: Shape) -> Shape:
    x, y, z = (max(g, c) for g, c in zip(grid, cluster, strict=True))
    return (x, y, z)


def _block_shape(module: Module, entry: Entry, block: Sequence[int] | None) -> Shape:
    """The block's shape: given, or as `.reqntid` says (PTX ISA §11.4.3); checked against both."""
    where = place(module.path, entry.line)
    required, most = entry.tuning.get("reqntid"), entry.tuning.get("maxntid")
    if block is None and required is None:
        limit = f" (.maxntid: at most {prod(most)} threads)" if most else ""
        raise InputError(f"the block's shape is not in PTX: give --block X,Y,Z{limit}", where)
    shape = _shape("block", block if block is not None else required or ())
    size = size_of(shape)
    if required is not None and size != prod(required):
        raise InputError(f"block {shape} has {size} threads, .reqntid says {prod(required)}", where)
    if size > min(prod(most) if most else MAX_THREADS, MAX_THREADS):
        limit = f".maxntid allows {prod(most)}" if most else f"the most is {MAX_THREADS}"
        raise InputError(f"block {shape} has {size} threads, {limit}", where)
    return shape


# --- which parameters are pointers ---------------------------------------------------------------


def _pointers(entry: Entry, parameters: Mapping[str, int | float | str]) -> dict[str, str]:
    """Pointer parameters and the names of their buffers; each has a buffer of its own."""
    addresses = _used_as_address(entry)
    found = {}
    for parameter in entry.parameters:
        given = parameters.get(parameter.name, parameter.name)
        is_pointer = parameter.pointer or parameter.name in addresses
        if is_pointer and isinstance(given, str):
            found[parameter.name] = given
    return found


def _used_as_address(entry: Entry) -> set[str]:
    """Parameters whose value reaches an address, by way of moves and additions."""
    sources: dict[str, set[str]] = {}
    pointers: set[str] = set()
    changed = True
    while changed:
        changed = False
        for ins in entry.instructions:
            reached = _reaching(ins, sources)
            if ins.parts[0] == "cvta":
                pointers |= reached
            for operand in ins.operands:
                if isinstance(operand, Address) and isinstance(operand.base, Register):
                    pointers |= sources.get(operand.base.name, set())
            target = ins.operands[0] if ins.operands else None
            if reached and isinstance(target, Register) and target.type in ("b64", "u64", "s64"):
                before = sources.setdefault(target.name, set())
                if not reached <= before:
                    before |= reached
                    changed = True
    return pointers


def _reaching(ins: PtxInstruction, sources: Mapping[str, set[str]]) -> set[str]:
    """The parameters that an instruction's result may be derived from, as an address."""
    if ins.opcode.startswith("ld.param"):
        address = ins.operands[1]
        assert isinstance(address, Address)
        if isinstance(address.base, Symbol) and not address.offset and ins.bits == 64:
            return {address.base.name}
        return set()
    if ins.parts[0] not in _CARRIES_ADDRESS:
        return set()
    used = [o.name for o in ins.operands[1:] if isinstance(o, Register)]
    return set().union(*(sources.get(name, set()) for name in used))


# --- the program ---------------------------------------------------------------------------------


def _program(machine: Machine, module: Module, entry: Entry, launch: Launch) -> Program:
    agents = []
    for lane, steps in enumerate(machine.record.steps):
        cta, thread = divmod(lane, machine.padded)
        if thread < launch.threads:
            agents.append(Agent("thread", cta, thread // WARP, 1, steps, thread))
    arrays: dict[str, list[Region]] = {}
    for region in machine.record.regions:
        arrays.setdefault(region.array, []).append(region)
    return Program(
        name=entry.name,
        parameters=_shown_parameters(launch),
        agents=agents,
        arrays=arrays,
        barriers=[mbarrier.barrier for mbarrier in machine.sync.mbarriers.values()],
        clusters=launch.ctas,
        path=module.path,
        lines=module.lines,
        notes=[_version(module), *_notes(launch), *machine.notes],
    )


def _shown_parameters(launch: Launch) -> dict[str, object]:
    shown: dict[str, object] = {"grid": list(launch.grid), "block": list(launch.block)}
    if launch.ctas > 1:
        shown["cluster"] = list(launch.cluster)
    return shown | dict(launch.parameters) | {k: v for k, v in launch.pointers.items() if k != v}


def _version(module: Module) -> str:
    return f"the file says .version {module.version}; --isa chooses the rules it is judged by"


def _notes(launch: Launch) -> list[str]:
    notes = []
    if launch.grid != launch.cluster:
        what = "one block" if launch.ctas == 1 else "one cluster"
        notes.append(f"{what} of the grid is executed (%ctaid = 0): the others are not checked")
    if len(set(launch.pointers.values())) > 1:
        names = ", ".join(dict.fromkeys(launch.pointers.values()))
        notes.append(f"distinct buffers that do not overlap: {names}")
    return notes
