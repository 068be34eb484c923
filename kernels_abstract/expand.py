"""Syntax tree and parameter values -> `Program`: the kernel, unrolled, one agent a warp."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from ..model.program import Agent, InputError, Program
from . import syntax
from .expressions import Scope, compile_expression, constant, integer, typed
from .layout import TMEM_COLUMNS, Declarer, Layout
from .parameters import settle
from .statements import AgentCompiler
from .strand import AGENT_COST, Budget, Strand, line_up

Kind = TypeVar("Kind")
WARP = 32
MOST_CTAS = 16
"""The largest (non-portable) cluster."""


@dataclass(frozen=True)
class Shape:
    """An agent's warps or threads: the first warp's number, how many, and in which CTAs.

    `axes` are the ranges of the threads' variables, the first one fastest.
    """

    unit: str
    first: int
    count: int
    ctas: range
    axes: tuple[range, ...] = ()

    @property
    def warps(self) -> range:
        if self.unit == "warps":
            return range(self.first, self.first + self.count)
        return range(self.first, self.first + -(-self.count // WARP))

    @property
    def threads(self) -> int:
        return self.count * WARP if self.unit == "warps" else self.count

    def agent(self, name: str, cta: int, number: int) -> Agent:
        if self.unit == "warps":
            warp = self.first + number
            return Agent(name, cta, warp, WARP, thread=warp * WARP)
        thread = self.first * WARP + number
        return Agent(name, cta, thread // WARP, 1, thread=thread)

    def coordinates(self, number: int) -> Iterator[int]:
        for axis in self.axes:
            yield axis[number % len(axis)]
            number //= len(axis)

    def warp_threads(self, warp: int) -> int:
        """How many of the warp's threads take part."""
        return min(WARP, self.threads - (warp - self.first) * WARP)


def expand(kernel: syntax.Kernel, given: Mapping[str, object] | None = None) -> Program:
    """The program that `kernel` is with the parameters `given`, and defaults for the others."""
    try:
        return Expansion(kernel, given or {}).program()
    except RecursionError:
        raise InputError("nested too deeply; split the expression", kernel.path) from None


class Expansion:
    """One kernel with values for its parameters."""

    def __init__(self, kernel: syntax.Kernel, given: Mapping[str, object]) -> None:
        self.kernel = kernel
        self.budget = Budget()
        self.parameters = settle(kernel, given)
        self.scope = Scope()
        self.ctas = 1
        self.constants()
        self.layout = Declarer(self.ctas, self.scope, self.budget.spend).declare(
            kernel.declarations
        )
        self.procedures = self.named_procedures()
        self.choices = itertools.count()

    def declared(self, kind: type[Kind]) -> list[Kind]:
        return [each for each in self.kernel.declarations if isinstance(each, kind)]

    def constants(self) -> None:
        """Parameters, top-level `let`s, `require`s and the cluster's size, in their order."""
        for name, value in self.parameters.items():
            self.scope.codes[name] = constant(value)
        for word in (word for each in self.kernel.parameters for word in each.words):
            self.scope.codes.setdefault(word, constant(word))
        for declaration in self.kernel.declarations:
            match declaration:
                case syntax.Let(position, name, expression):
                    if name in self.scope.codes:
                        raise position.error(f"`{name}` is declared twice")
                    code = compile_expression(expression, self.scope)
                    self.scope.codes[name] = constant(code.run([]))
                case syntax.Require(position, condition, message):
                    if not typed(condition, self.scope, (bool, int)).run([]):
                        raise position.error(message)
                case syntax.Cluster(position, size):
                    self.ctas = integer(size, self.scope).run([])
                    if not 1 <= self.ctas <= MOST_CTAS:
                        raise position.error(f"a cluster has 1 to {MOST_CTAS} CTAs")

    def named_procedures(self) -> dict[str, syntax.Procedure]:
        found: dict[str, syntax.Procedure] = {}
        for procedure in self.declared(syntax.Procedure):
            if procedure.name in found:
                raise procedure.position.error(f"`{procedure.name}` is declared twice")
            found[procedure.name] = procedure
        return found

    def program(self) -> Program:
        declarations = self.declared(syntax.Agent)
        if not declarations:
            raise self.kernel.position.error("no agent is declared, so nothing runs")
        shapes = self.shapes(declarations)
        agents = [
            agent
            for declaration, shape in zip(declarations, shapes, strict=True)
            for agent in self.agents(declaration, shape, self.threads_by_cta(shapes))
        ]
        shown = {k: list(v) if isinstance(v, tuple) else v for k, v in self.parameters.items()}
        return Program(
            self.kernel.name,
            dict(shown),
            agents,
            self.layout.every_region(),
            self.layout.every_barrier(),
            clusters=self.ctas,
            path=self.kernel.path,
            lines=list(self.kernel.lines),
            notes=notes(self.layout),
        )

    # --- agents -----------------------------------------------------------------------------------

    def shapes(self, declarations: list[syntax.Agent]) -> list[Shape]:
        """Warps without a number follow those of the agent before."""
        shapes: list[Shape] = []
        taken: dict[tuple[int, int], str] = {}
        following = 0
        for declaration in declarations:
            shape = self.shape(declaration, following)
            blame = f"`{declaration.name}` has {shape.count:,} {shape.unit}"
            self.budget.spend(AGENT_COST * shape.count * len(shape.ctas), blame)
            following = shape.warps.stop
            for place in itertools.product(shape.ctas, shape.warps):
                if place in taken:
                    raise declaration.position.error(
                        f"warp {place[1]} of CTA {place[0]} is `{taken[place]}` already"
                    )
                taken[place] = declaration.name
            shapes.append(shape)
        return shapes

    def shape(self, declaration: syntax.Agent, following: int) -> Shape:
        who, ctas = declaration.who, self.agent_ctas(declaration)
        if who.axes:
            axes = tuple(self.axis(axis) for axis in who.axes)
            count = 1
            for axis in axes:
                count *= len(axis)
            return Shape("threads", following, count, ctas, axes)
        first = following if who.first is None else self.number(who.first, 0, "a warp's number")
        if who.stop is not None:
            stop = self.number(who.stop, first + 1, "the end of the warps")
            return Shape(who.unit, first, stop - first, ctas)
        assert who.count is not None
        return Shape(who.unit, first, self.number(who.count, 1, f"the number of {who.unit}"), ctas)

    def axis(self, axis: syntax.Axis) -> range:
        start = self.number(axis.start, 0, f"the start of `{axis.name}`")
        return range(start, self.number(axis.stop, start + 1, f"the end of `{axis.name}`"))

    def agent_ctas(self, declaration: syntax.Agent) -> range:
        if declaration.cta is None:
            return range(self.ctas)
        cta = self.number(declaration.cta, 0, "the CTA")
        if cta >= self.ctas:
            raise declaration.cta.position.error(f"CTA {cta}; the cluster has {self.ctas}")
        return range(cta, cta + 1)

    def number(self, node: syntax.Expression, least: int, what: str) -> int:
        value: int = integer(node, self.scope).run([])
        if value < least:
            raise node.position.error(f"{what} is {value}; it must be at least {least}")
        return value

    def threads_by_cta(self, shapes: list[Shape]) -> list[int]:
        return [
            sum(shape.threads for shape in shapes if cta in shape.ctas) for cta in range(self.ctas)
        ]

    def agents(
        self, declaration: syntax.Agent, shape: Shape, cta_threads: list[int]
    ) -> list[Agent]:
        """The body is compiled once and unrolled for each warp (or thread) of each CTA."""
        scope = Scope(self.scope)
        names = ["cta", "warp", "thread", *(axis.name for axis in declaration.who.axes)]
        for name in names:
            scope.declare(name, int, declaration.position)
        compiler = AgentCompiler(
            self.kernel, self.layout, self.procedures, self.budget, self.choices
        )
        run = compiler.body(declaration.body, scope)
        strands = []
        for cta, number in itertools.product(shape.ctas, range(shape.count)):
            agent = shape.agent(declaration.name, cta, number)
            variables = [cta, agent.warp, agent.thread, *shape.coordinates(number)]
            variables += [0] * (scope.counter[0] - len(variables))
            strand = Strand(
                agent, variables, self.budget, cta_threads[cta], shape.warp_threads(agent.warp)
            )
            strand.lined_up = agent.lanes == 1 and shape.count > 1
            run(strand)
            strands.append(strand)
        if strands[0].lined_up:
            line_up(strands)
        return [strand.agent for strand in strands]


def notes(layout: Layout) -> list[str]:
    used = layout.columns_used()
    if used <= TMEM_COLUMNS:
        return []
    return [
        f"tensor memory: {used} columns are used and the device has {TMEM_COLUMNS}; "
        "the order is checked as if it had more"
    ]
