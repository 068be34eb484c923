"""Operands of an instruction: places in arrays, mbarriers, numbers and registers.

A `Form` compiles the operands of one instruction of the text, once. What depends on variables is
read from the `Values` that the instruction gets each time an agent executes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ..model.instructions import Scope, Sem
from ..model.program import Barrier, InputError, Region, Space
from . import expressions, syntax
from .expressions import Run
from .layout import Array, Layout, Mbarriers
from .strand import Strand
from .suggest import or_declare
from .syntax import Position

Values = tuple[int, ...]
Getter = Callable[[Values], int]

WARP = 32
SEMS = {sem.value: sem for sem in Sem}
SCOPES = {scope.name.lower(): scope for scope in Scope if scope is not Scope.THREAD}
MEMORY = {Space.TMEM: "tensor", Space.SHARED: "shared", Space.GLOBAL: "global"}
SPACES = {"shared": Space.SHARED, "global": Space.GLOBAL}


def _outside(index: int, name: str, count: int) -> str:
    return f"index {index} is outside `{name}`, whose elements are 0 to {count - 1}"


@dataclass(frozen=True)
class CtaChoice:
    """Which CTAs' instances an operand means: a number, all, or (by default) the agent's own."""

    number: Getter | None = None
    every: bool = False

    def pick(self, strand: Strand, values: Values, ctas: int, position: Position) -> range:
        if self.every:
            return range(ctas)
        cta = strand.cta if self.number is None else self.number(values)
        if not 0 <= cta < ctas:
            raise position.error(f"CTA {cta}; the cluster has {ctas}")
        return range(cta, cta + 1)


@dataclass(frozen=True)
class Place:
    """An array operand: an element, or a piece of it, in one CTA or several."""

    position: Position
    layout: Layout
    array: Array
    index: Getter | None
    pieces: tuple[tuple[str, Getter, Getter, Position], ...]
    cta: CtaChoice

    def regions(
        self, strand: Strand, values: Values, exclusive: bool = False
    ) -> tuple[Region, ...]:
        index, columns, rows = self.extent(values)
        ctas = self.cta.pick(strand, values, self.layout.ctas, self.position)
        return tuple(
            self.layout.region(self.array, index, cta, columns, rows, exclusive) for cta in ctas
        )

    def pair(self, strand: Strand, values: Values, cta_group: int) -> tuple[Region, ...]:
        """As an operand of cta_group::2: unless a CTA is named, both CTAs of the pair."""
        if cta_group == 1 or self.cta.every or self.cta.number is not None:
            return self.regions(strand, values)
        first = strand.cta & ~1
        if first + 1 >= self.layout.ctas:
            raise self.position.error("cta_group::2 needs both CTAs of a pair; declare `cluster 2`")
        index, columns, rows = self.extent(values)
        return tuple(
            self.layout.region(self.array, index, cta, columns, rows, False)
            for cta in (first, first + 1)
        )

    def one(self, strand: Strand, values: Values, exclusive: bool = False) -> Region:
        found = self.regions(strand, values, exclusive)
        if len(found) > 1:
            raise self.position.error("one CTA's instance is needed here, not @all")
        return found[0]

    def quarter(self, strand: Strand, values: Values) -> Region:
        """The lanes that the warp can reach: warp w has lanes 32·(w mod 4) onwards (F15)."""
        if strand.lanes != WARP:
            raise self.position.error(
                f"a whole warp executes this; declare `{strand.agent.name}` as `1 warp`"
            )
        region = self.one(strand, values)
        first = WARP * (strand.warp % 4)
        rows = max(region.rows[0], first), min(region.rows[1], first + WARP)
        if rows[0] >= rows[1]:
            raise self.position.error(
                f"warp {strand.warp} reaches lanes {first}..{first + WARP}, "
                f"and this is lanes {region.rows[0]}..{region.rows[1]}"
            )
        index = self.element(values)
        return self.layout.region(self.array, index, region.cta, region.columns, rows, False)

    def whole(self, strand: Strand, values: Values) -> Region:
        """All elements together, when no index is given."""
        if self.index is not None or self.array.single:
            return self.one(strand, values)
        cta = self.cta.pick(strand, values, self.layout.ctas, self.position)[0]
        columns = min(self.array.starts), max(self.array.starts) + self.array.size
        return self.layout.region(self.array, -1, cta, columns, self.array.lanes, False)

    def element(self, values: Values) -> int:
        count = len(self.array.starts)
        if self.index is None:
            if self.array.single:
                return 0
            raise self.position.error(
                f"`{self.array.name}` has {count} elements; say which, for example "
                f"`{self.array.name}[0]`"
            )
        index = self.index(values)
        if not 0 <= index < count:
            raise self.position.error(_outside(index, self.array.name, count))
        return index

    def extent(self, values: Values) -> tuple[int, tuple[int, int], tuple[int, int]]:
        index = self.element(values)
        start = self.array.starts[index]
        columns, rows = (start, start + self.array.size), self.array.lanes
        for kind, first, second, position in self.pieces:
            if kind == "lanes":
                rows = piece(rows, first(values), second(values), position)
            elif kind == "part":
                columns = part(columns, first(values), second(values), position)
            else:
                columns = piece(columns, first(values), second(values), position)
        return index, columns, rows


def piece(span: tuple[int, int], first: int, count: int, position: Position) -> tuple[int, int]:
    length = span[1] - span[0]
    if count < 1 or first < 0 or first + count > length:
        raise position.error(f"{count} from {first} is not inside 0..{length}")
    return span[0] + first, span[0] + first + count


def part(span: tuple[int, int], number: int, parts: int, position: Position) -> tuple[int, int]:
    length = span[1] - span[0]
    if parts < 1 or not 0 <= number < parts:
        raise position.error(f"part {number} of {parts}")
    if length % parts:
        raise position.error(f"{length} cannot be cut into {parts} equal parts")
    return piece(span, number * (length // parts), length // parts, position)


@dataclass(frozen=True)
class Target:
    """An mbarrier operand."""

    position: Position
    ctas: int
    group: Mbarriers
    index: Getter | None
    cta: CtaChoice

    def barriers(self, strand: Strand, values: Values) -> tuple[Barrier, ...]:
        index = self.element(values)
        ctas = self.cta.pick(strand, values, self.ctas, self.position)
        return tuple(self.group.objects[cta][index] for cta in ctas)

    def one(self, strand: Strand, values: Values) -> Barrier:
        found = self.barriers(strand, values)
        if len(found) > 1:
            raise self.position.error("one mbarrier is needed here, not @all")
        return found[0]

    def local(self, strand: Strand, values: Values) -> Barrier:
        found = self.one(strand, values)
        if found.cta != strand.cta:
            raise self.position.error("a thread can wait only on an mbarrier of its own CTA")
        return found

    def element(self, values: Values) -> int:
        count = len(self.group.objects[0])
        if self.index is None:
            if self.group.single:
                return 0
            raise self.position.error(f"`{self.group.name}` has {count} mbarriers; say which")
        index = self.index(values)
        if not 0 <= index < count:
            raise self.position.error(_outside(index, self.group.name, count))
        return index


@dataclass
class Form:
    """One instruction of the text while it is lowered."""

    node: syntax.Instruction
    name: str
    usage: str
    modifiers: tuple[str, ...]
    scope: expressions.Scope
    layout: Layout
    runs: list[Run] = field(default_factory=list)
    """The expressions whose values a `Build` gets, in this order."""
    defined: set[str] = field(default_factory=set)
    used: dict[str, Position] = field(default_factory=dict)

    @property
    def position(self) -> Position:
        return self.node.position

    def error(self, message: str) -> InputError:
        return self.position.error(f"{self.name}: {message}; write `{self.usage}`")

    def operands(self, left: int | range, right: int | range = 0) -> None:
        """Check how many operands stand before and after the arrow."""
        for found, legal in ((self.node.left, left), (self.node.right or (), right)):
            counts = (legal,) if isinstance(legal, int) else legal
            if len(found) not in counts:
                raise self.error(f"{len(found)} operands where {counts[0]} are needed")
        if self.node.right is not None and not self.node.right and right == 0:
            raise self.error("no arrow belongs here")

    def clauses(self, *legal: str) -> dict[str, syntax.Expression]:
        found: dict[str, syntax.Expression] = {}
        for word, operands in self.node.clauses:
            if word not in legal or word in found or len(operands) != 1:
                raise self.error(f"`{word}` does not belong here, or not like this")
            found[word] = operands[0]
        return found

    def number(self, node: syntax.Expression, least: int = 0, most: int | None = None) -> Getter:
        """An integer operand; its value is checked when it is known."""
        code = expressions.integer(node, self.scope)

        def checked(value: int) -> int:
            if value < least or (most is not None and value > most):
                legal = f"at least {least}" if most is None else f"{least} to {most}"
                raise node.position.error(f"{value} is out of range here; legal is {legal}")
            return value

        if code.constant:
            fixed = checked(int(code.run([])))
            return lambda values: fixed
        place = len(self.runs)
        self.runs.append(code.run)
        return lambda values: checked(int(values[place]))

    def index(self, node: syntax.Expression) -> Getter:
        """An index or place, whose range the array checks."""
        code = expressions.integer(node, self.scope)
        place = len(self.runs)
        self.runs.append(code.run)
        return lambda values: values[place]

    def place(self, node: syntax.Expression, *spaces: Space) -> Place:
        name, index, pieces, cta = self.unwrap(node)
        arrays = self.layout.arrays
        if name.name not in arrays:
            raise self.unknown("array", name, arrays, self.layout.mbarriers)
        array = arrays[name.name]
        if spaces and array.space not in spaces:
            wanted = " or ".join(MEMORY[space] for space in spaces)
            raise node.position.error(
                f"{self.name} needs {wanted} memory, and `{array.name}` is in "
                f"{MEMORY[array.space]} memory"
            )
        for kind, *_, position in pieces:
            legal = ("columns", "lanes", "part") if array.space is Space.TMEM else ("bytes", "part")
            if kind not in legal:
                raise position.error(f"`{array.name}` is cut by .{', .'.join(legal)}, not .{kind}")
        return Place(node.position, self.layout, array, index, pieces, cta)

    def target(self, node: syntax.Expression) -> Target:
        name, index, pieces, cta = self.unwrap(node)
        groups = self.layout.mbarriers
        if name.name not in groups:
            raise self.unknown("mbarrier", name, groups, self.layout.arrays)
        if pieces:
            raise node.position.error("an mbarrier has no pieces")
        return Target(node.position, self.layout.ctas, groups[name.name], index, cta)

    def unknown(
        self, what: str, name: syntax.Name, known: Mapping[str, object], other: Mapping[str, object]
    ) -> InputError:
        if name.name in other:
            wrong = "array" if what == "mbarrier" else "mbarrier"
            return name.position.error(f"`{name.name}` is an {wrong}; write `{self.usage}`")
        forms = {"array": "shared NAME bytes N", "mbarrier": "mbarrier NAME count N"}
        hint = or_declare(name.name, known, forms.get(what, f"{what} NAME"))
        return name.position.error(f"no {what} is named `{name.name}`{hint}")

    def unwrap(
        self, node: syntax.Expression
    ) -> tuple[
        syntax.Name, Getter | None, tuple[tuple[str, Getter, Getter, Position], ...], CtaChoice
    ]:
        """`name[index].piece(...)@cta`, taken apart."""
        cta, index = CtaChoice(), None
        pieces: list[tuple[str, Getter, Getter, Position]] = []
        while not isinstance(node, syntax.Name):
            match node:
                case syntax.AtCta(_, base, syntax.Name(_, "all")):
                    cta, node = CtaChoice(every=True), base
                case syntax.AtCta(_, base, number):
                    cta, node = CtaChoice(self.index(number)), base
                case syntax.Piece(position, base, kind, first, second):
                    cut = kind, self.index(first), self.index(second), position
                    pieces, node = [cut, *pieces], base
                case syntax.Subscript(_, base, place) if index is None:
                    index, node = self.index(place), base
                case _:
                    raise self.error("this is not an array or mbarrier")
        name = syntax.Name(node.position, self.scope.real_name(node.name))
        return name, index, tuple(pieces), cta

    def register(self, node: syntax.Expression) -> str:
        if not isinstance(node, syntax.Name):
            raise node.position.error("a register's name is needed here")
        return self.scope.real_name(node.name)

    def writes(self, nodes: tuple[syntax.Expression, ...]) -> tuple[str, ...]:
        names = tuple(self.register(node) for node in nodes)
        self.defined.update(names)
        return names

    def reads(self, nodes: tuple[syntax.Expression, ...] | None) -> tuple[str, ...]:
        names = tuple(self.register(node) for node in nodes or ())
        for name, node in zip(names, nodes or (), strict=True):
            self.used.setdefault(name, node.position)
        return names

    def order(self, default: tuple[Sem, Scope], scope_alone: bool = False) -> tuple[Sem, Scope]:
        """`.sem.scope` of the modifiers; PTX wants both or none."""
        sem = next((SEMS[m] for m in self.modifiers if m in SEMS), None)
        scope = next((SCOPES[m] for m in self.modifiers if m in SCOPES), None)
        if sem is not None and sem is not Sem.WEAK and scope is None and not scope_alone:
            raise self.error(f"a scope must follow .{sem.value}, for example .{sem.value}.gpu")
        if scope is not None and sem is None and not scope_alone:
            raise self.error("a scope comes with its semantics, for example .relaxed.gpu")
        return sem or default[0], default[1] if scope is None else scope

    def check_space(self, space: Space) -> None:
        """`.shared` and `.global` may be said, if they are true."""
        for modifier in self.modifiers:
            said = SPACES.get(modifier.split("::")[0])
            if said is not None and said is not space:
                raise self.error(f"the array is in {space.value} memory, not in {said.value}")

    @property
    def cta_group(self) -> int:
        return 2 if "cta_group::2" in self.modifiers else 1
