"""Statements of one agent, compiled to closures that unroll them for a `Strand`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..model import instructions as model
from ..model.program import Choice, Source, Space
from . import syntax
from .expressions import FUNCTIONS, Scope, bounded, compile_expression, integer, typed
from .layout import Layout, Ring
from .opcodes import lower
from .operands import Form
from .strand import COMPILE_COST, Budget, Statement, Strand
from .suggest import or_declare, suggestion
from .syntax import Position

RING_WORDS = ("producer_acquire", "producer_commit", "consumer_wait", "consumer_release")
MEMORY_FLAGS = {
    "mem_none": frozenset[Space](),
    "mem_threadgroup": frozenset((Space.SHARED,)),
    "mem_device": frozenset((Space.GLOBAL,)),
}
"""Metal's flags of threadgroup_barrier: the memory that it orders."""


@dataclass
class AgentCompiler:
    """Compiles one agent's body. Procedures are inlined, so each statement has its own ordinal."""

    kernel: syntax.Kernel
    layout: Layout
    procedures: Mapping[str, syntax.Procedure]
    budget: Budget
    choices: Iterator[int]
    defined: set[str] = field(default_factory=set)
    used: dict[str, Position] = field(default_factory=dict)
    _ordinal: int = 0
    _open: list[str] = field(default_factory=list)
    _outside_branch: int = 0
    """Variables with a slot below this belong to code outside the branch being compiled."""

    def body(self, block: syntax.Block, scope: Scope) -> Statement:
        run = self.block(block, scope)
        for name, position in self.used.items():
            if name not in self.defined:
                hint = suggestion(name, self.defined)
                raise position.error(f"nothing in this agent writes the register `{name}`{hint}")
        return run

    def block(self, block: syntax.Block, scope: Scope) -> Statement:
        inner = scope.inner()
        runs = [self.statement(statement, inner) for statement in block]
        cost = len(runs) + 1

        def run(strand: Strand) -> None:
            strand.budget.spend(cost)
            for each in runs:
                each(strand)

        if not any(isinstance(statement, syntax.Tile) for statement in block):
            return run

        def labelled(strand: Strand) -> None:
            tile = strand.tile
            run(strand)
            strand.tile = tile

        return labelled

    def statement(self, node: syntax.Statement, scope: Scope) -> Statement:
        self.budget.spend(COMPILE_COST)
        self._ordinal += 1
        compilers: dict[type, Callable[..., Statement]] = {
            syntax.Instruction: self.instruction,
            syntax.Let: self.let,
            syntax.Assign: self.assign,
            syntax.Call: self.call,
            syntax.For: self.loop,
            syntax.If: self.choose,
            syntax.Branch: self.branch,
            syntax.Tile: self.tile,
        }
        return compilers[type(node)](node, scope)

    def source(self, position: Position) -> Source:
        return Source(position.line, position.column, self.kernel.lines[position.line - 1].strip())

    # --- instructions ---------------------------------------------------------------------------

    def instruction(self, node: syntax.Instruction, scope: Scope) -> Statement:
        if node.opcode in RING_WORDS:
            node = self.ring_word(node, scope)
        form, build = lower(node, scope, self.layout)
        self.note_registers(form)
        runs, source, ordinal = form.runs, self.source(node.position), self._ordinal
        built: dict[tuple[object, ...], model.Instruction] = {}

        def run(strand: Strand) -> None:
            variables = strand.variables
            values = tuple([each(variables) for each in runs])
            key = (strand.kind, values)
            instruction = built.get(key)
            if instruction is None:
                instruction = built[key] = build(strand, values)
            strand.emit(instruction, source, ordinal)

        return run

    def note_registers(self, form: Form) -> None:
        self.defined |= form.defined
        for name, position in form.used.items():
            self.used.setdefault(name, position)

    def ring_word(self, node: syntax.Instruction, scope: Scope) -> syntax.Instruction:
        """CUTLASS's words as the instructions they stand for."""
        if len(node.left) != 2 or node.right is not None or node.clauses:
            raise node.position.error(f"write `{node.opcode} ring, i`")
        operand, step = node.left
        base = operand.base if isinstance(operand, syntax.AtCta) else operand
        ring = self.find_ring(base, scope)
        full_side = node.opcode in ("consumer_wait", "producer_commit")
        group = ring.full if full_side else ring.empty
        position, depth = node.position, syntax.Constant(node.position, ring.depth)
        barrier: syntax.Expression = syntax.Name(position, group.name)
        if not group.single:
            slot = syntax.Binary(position, "%", step, depth)
            barrier = syntax.Subscript(position, barrier, slot)
        if isinstance(operand, syntax.AtCta):
            barrier = syntax.AtCta(position, barrier, operand.cta)
        if node.opcode in ("producer_commit", "consumer_release"):
            return syntax.Instruction(position, "mbarrier.arrive", (barrier,), None, ())
        parity = lap_parity(step, depth, flipped=not full_side)
        opcode = "mbarrier.try_wait.parity"
        return syntax.Instruction(position, opcode, (barrier, parity), None, ())

    def find_ring(self, node: syntax.Expression, scope: Scope) -> Ring:
        name = scope.real_name(node.name) if isinstance(node, syntax.Name) else ""
        if name not in self.layout.rings:
            form = "ring NAME: full F, empty E, depth D"
            hint = or_declare(name, self.layout.rings, form)
            raise node.position.error(f"no ring is named `{name}`{hint}")
        return self.layout.rings[name]

    # --- variables and registers ------------------------------------------------------------------

    def let(self, node: syntax.Let, scope: Scope) -> Statement:
        code = compile_expression(node.value, scope)
        slot = scope.declare(node.name, code.type, node.position, assignable=True)
        return self.setter(slot, code.run, node.position, code.type is int)

    def assign(self, node: syntax.Assign, scope: Scope) -> Statement:
        owner = scope.owner(node.name)
        if owner is None:
            return self.compute(node, scope)
        slot = owner.slots.get(node.name)
        if slot is None:
            raise node.position.error(f"`{node.name}` cannot be assigned; declare one with `let`")
        if slot < self._outside_branch:
            raise node.position.error(
                f"`{node.name}` would depend on data; declare it with `let` inside the branch"
            )
        kind = owner.codes[node.name].type
        code = typed(node.value, scope, (int, bool) if kind in (int, bool) else (kind,))
        return self.setter(slot, code.run, node.position, code.type is int)

    def setter(
        self, slot: int, value: Callable[[list[object]], Any], position: Position, check: bool
    ) -> Statement:
        def run(strand: Strand) -> None:
            found = value(strand.variables)
            if check:
                bounded(found, position)
            strand.variables[slot] = found

        return run

    def compute(self, node: syntax.Assign, scope: Scope) -> Statement:
        """`r = f(r1, r2)`: arithmetic on registers."""
        value = node.value
        if not isinstance(value, syntax.Apply) or value.function in FUNCTIONS:
            hint = suggestion(node.name, scope.names())
            raise node.position.error(
                f"no variable is named `{node.name}`{hint or '; declare it with `let`'}"
            )
        registers = tuple(self.register_read(each, scope) for each in value.arguments)
        register = scope.real_name(node.name)
        self.defined.add(register)
        instruction = model.Compute(register, registers, value.function)
        return self.fixed(instruction, node.position)

    def register_read(self, node: syntax.Expression, scope: Scope) -> str:
        if not isinstance(node, syntax.Name):
            raise node.position.error("a register's name is needed here")
        name = scope.real_name(node.name)
        self.used.setdefault(name, node.position)
        return name

    def fixed(self, instruction: model.Instruction, position: Position) -> Statement:
        source, ordinal = self.source(position), self._ordinal
        return lambda strand: strand.emit(instruction, source, ordinal)

    # --- control ----------------------------------------------------------------------------------

    def call(self, node: syntax.Call, scope: Scope) -> Statement:
        if node.procedure == "threadgroup_barrier":
            return self.threadgroup_barrier(node)
        procedure = self.find_procedure(node)
        inner = self.top(scope).inner()
        setters = []
        for name, argument in zip(procedure.parameters, node.arguments, strict=True):
            if isinstance(argument, syntax.Name):
                inner.aliases[name] = scope.real_name(argument.name)
                if scope.find(argument.name) is None:
                    continue
            code = compile_expression(argument, scope)
            slot = inner.declare(name, code.type, argument.position)
            setters.append(self.setter(slot, code.run, argument.position, code.type is int))
        self._open.append(node.procedure)
        body = self.block(procedure.body, inner)
        self._open.pop()

        def run(strand: Strand) -> None:
            for setter in setters:
                setter(strand)
            body(strand)

        return run

    def find_procedure(self, node: syntax.Call) -> syntax.Procedure:
        procedure = self.procedures.get(node.procedure)
        if procedure is None:
            hint = suggestion(node.procedure, self.procedures)
            raise node.position.error(f"no procedure is named `{node.procedure}`{hint}")
        if node.procedure in self._open:
            raise node.position.error(f"`{node.procedure}` calls itself; use a loop")
        if len(node.arguments) != len(procedure.parameters):
            raise node.position.error(
                f"`{node.procedure}` takes {len(procedure.parameters)} arguments, "
                f"and {len(node.arguments)} are given"
            )
        return procedure

    def top(self, scope: Scope) -> Scope:
        """The agent's own names (cta, warp, ...) and the kernel's: all that a procedure sees."""
        while scope.outer is not None and scope.outer.outer is not None:
            scope = scope.outer
        return scope

    def threadgroup_barrier(self, node: syntax.Call) -> Statement:
        """Metal's barrier of the whole threadgroup, which orders only the flagged memory."""
        flags = [each.name if isinstance(each, syntax.Name) else "" for each in node.arguments]
        if not flags or any(flag not in MEMORY_FLAGS for flag in flags):
            raise node.position.error(f"threadgroup_barrier takes {', '.join(MEMORY_FLAGS)}")
        spaces = frozenset[Space]().union(*(MEMORY_FLAGS[flag] for flag in flags))
        name = f"threadgroup_barrier({', '.join(flags)})"
        source, ordinal = self.source(node.position), self._ordinal

        def run(strand: Strand) -> None:
            barrier = model.Bar(0, strand.cta_threads, True, spaces, name, everyone=True)
            strand.emit(barrier, source, ordinal)

        return run

    def loop(self, node: syntax.For, scope: Scope) -> Statement:
        inner = scope.inner()
        if node.stop is not None:
            if node.index is not None:
                raise node.position.error("`for i, v in` needs a list")
            return self.range_loop(node, scope, inner, node.stop)
        items = typed(node.start, scope, (tuple,)).run
        index = -1 if node.index is None else inner.declare(node.index, int, node.position)
        slot = inner.declare(node.variable, int, node.position)
        ordinal, name = self._ordinal, self.loop_name(node)
        body = self.block(node.body, inner)

        def run(strand: Strand) -> None:
            values, outer = items(strand.variables), strand.path
            strand.budget.loops.append((len(values), name))
            for place, value in enumerate(values):
                strand.variables[slot] = value
                if index >= 0:
                    strand.variables[index] = place
                strand.path = (*outer, ordinal, place)
                body(strand)
            strand.path = outer
            strand.budget.loops.pop()

        return run

    def range_loop(
        self, node: syntax.For, scope: Scope, inner: Scope, stop: syntax.Expression
    ) -> Statement:
        """The outermost range loop labels its steps with its variable, unless `tile` has."""
        first, last = integer(node.start, scope).run, integer(stop, scope).run
        slot = inner.declare(node.variable, int, node.position)
        ordinal, name = self._ordinal, self.loop_name(node)
        body = self.block(node.body, inner)

        def run(strand: Strand) -> None:
            variables, outer, labels = strand.variables, strand.path, strand.tile is None
            start, end = first(variables), last(variables)
            strand.budget.loops.append((max(end - start, 0), name))
            for value in range(start, end):
                variables[slot] = value
                if labels:
                    strand.tile = value
                strand.path = (*outer, ordinal, value - start)
                body(strand)
            if labels:
                strand.tile = None
            strand.path = outer
            strand.budget.loops.pop()

        return run

    def loop_name(self, node: syntax.For) -> str:
        return f"the loop `{self.source(node.position).text}` (line {node.position.line})"

    def choose(self, node: syntax.If, scope: Scope) -> Statement:
        test = typed(node.condition, scope, (bool, int)).run
        then = self.block(node.then, scope)
        otherwise = self.block(node.otherwise, scope)

        def run(strand: Strand) -> None:
            if test(strand.variables):
                then(strand)
            else:
                otherwise(strand)

        return run

    def branch(self, node: syntax.Branch, scope: Scope) -> Statement:
        """Both sides are unrolled, each guarded by its outcome."""
        register = self.register_read(syntax.Name(node.position, node.register), scope)
        vote = self.fixed(model.Use((register,), "vote"), node.position)
        outside, self._outside_branch = self._outside_branch, scope.counter[0]
        then = self.block(node.then, scope)
        otherwise = self.block(node.otherwise, scope)
        self._outside_branch = outside
        choices, site = self.choices, node.site

        def run(strand: Strand) -> None:
            vote(strand)
            choice, outer = Choice(site, next(choices)), strand.guard
            strand.guard = outer | {(choice, True)}
            then(strand)
            strand.guard = outer | {(choice, False)}
            otherwise(strand)
            strand.guard = outer

        return run

    def tile(self, node: syntax.Tile, scope: Scope) -> Statement:
        value = integer(node.value, scope).run

        def run(strand: Strand) -> None:
            strand.tile = int(value(strand.variables))

        return run


def lap_parity(step: syntax.Expression, depth: syntax.Constant, flipped: bool) -> syntax.Expression:
    """`(i / depth) & 1`, and `^ 1` for a producer, whose first lap passes at once."""
    position = step.position
    one = syntax.Constant(position, 1)
    lap = syntax.Binary(position, "/", step, depth)
    parity = syntax.Binary(position, "&", lap, one)
    return syntax.Binary(position, "^", parity, one) if flipped else parity
