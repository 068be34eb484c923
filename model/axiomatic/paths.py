"""What one thread can do, for the solver: the paths of its code, with values as terms.

A read gives a new variable. A path forks where the code asks for a value: at branches, at addresses
in registers, and at operands that make the instruction what it is (a barrier's name). What was
assumed on the way is the path's condition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import z3

from ..instructions import Instruction, Role
from ..program import BudgetExceeded
from .code import (
    Act,
    AddressOf,
    Apply,
    Arguments,
    Arithmetic,
    Branch,
    Given,
    Location,
    Move,
    Operand,
    Read,
    Register,
    Term,
    Test,
    Thread,
    cut_address,
    cut_loop,
)
from .liveness import live_registers
from .path import NONE, Head, Path, Reads, Taken, read_variable
from .shadows import follows_registers, shadow, with_registers
from .symbols import (
    Formula,
    Value,
    applied,
    compared,
    conjunction,
    disjunction,
    negation,
)

MOST_PATHS = 2_000
"""Of one thread."""
UNITS = 5_000_000
"""z3's work for one question; a path on which it does not know is kept."""

Domains = dict[object, frozenset[int] | None]
"""The values that a word can have, where they are known to be few."""


@dataclass
class Walker:
    """The paths of one thread. `constants` are tried where an instruction needs a value."""

    test: Test
    agent: int
    bound: int
    domains: Domains
    constants: tuple[int, ...]
    in_time: Callable[[], None]
    made: dict[tuple[object, ...], Instruction | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.thread: Thread = self.test.threads[self.agent]
        self.code = self.thread.code
        self.live = [sorted(each) for each in live_registers(self.test, self.thread)]
        self.heads = {
            each.target
            for number, each in enumerate(self.code)
            if isinstance(each, Branch) and each.target <= number
        }
        self.located: dict[int, Location] = {}
        for name, address in self.test.addresses.items():
            self.located.setdefault(address, self.test.named[name])
        self.follows = follows_registers(self.test)
        self.solver: Any = z3.SimpleSolver()
        self.solver.set(rlimit=UNITS)

    def paths(self) -> list[Path]:
        """Errors: BudgetExceeded when there are too many, and those of `in_time`."""
        start = {name: (self._constant(value), NONE) for name, value in self.thread.registers}
        stack, found = [Path(0, start)], list[Path]()
        while stack:
            self.in_time()
            path = stack.pop()
            if path.pc >= len(self.code) or path.repeats >= 0 or path.cut:
                found.append(path)
            elif path.pc in self.heads:
                stack += reversed(list(self._head(path)))
            else:
                stack += reversed(list(self._step(path)))
            if len(found) + len(stack) > MOST_PATHS:
                raise BudgetExceeded(f"{self.thread.name} has more than {MOST_PATHS} paths")
        return found

    # --- assumptions -------------------------------------------------------------------------

    def _assume(self, path: Path, condition: Formula) -> Path | None:
        """The path on which it holds, if there can be one."""
        if isinstance(condition, bool):
            return path if condition else None
        self.solver.push()
        self.solver.add(*path.facts, *path.conditions, condition)
        possible = self.solver.check() != z3.unsat
        self.solver.pop()
        return replace(path, conditions=(*path.conditions, condition)) if possible else None

    # --- loops -------------------------------------------------------------------------------

    def _head(self, path: Path) -> Iterator[Path]:
        """At a loop's head: as it was on an earlier visit, with nothing changed, or new."""
        live = tuple(path.value(register) for register in self.live[path.pc])
        before = [head for head in path.heads if head.pc == path.pc]
        for head in reversed(before):
            same = self._unchanged(path, head, live)
            repeating = self._assume(path, same)
            if repeating is not None:
                number = path.heads.index(head)
                parks = [wait for heads, wait in path.tested if heads > number]
                park = parks[0] if parks else None
                yield replace(repeating, repeats=head.steps, park=park)
            changed = self._assume(path, negation(same))
            if changed is None:
                return
            path = changed
        if len(before) > self.bound:
            line = self.code[path.pc].place.line
            yield replace(path, cut=cut_loop(line, self.bound))
            return
        head = Head(path.pc, live, len(path.steps))
        yield from self._step(replace(path, heads=(*path.heads, head)))

    def _unchanged(self, path: Path, head: Head, live: tuple[Value, ...]) -> Formula:
        silent = (taken.silent for taken in path.steps[head.steps :])
        same = (compared("eq", a, b) for a, b in zip(head.live, live, strict=True))
        return conjunction((*silent, *same))

    # --- one statement -----------------------------------------------------------------------

    def _step(self, path: Path) -> Iterator[Path]:
        statement = self.code[path.pc]
        used = shadow(statement) if self.follows else None
        if used is not None:
            path = self._taken(path, used, self._made(used, (), ()))
        if isinstance(statement, Move):
            yield self._set(path, statement.register, self._value(path, statement.value))
        elif isinstance(statement, Arithmetic):
            left, a = self._value(path, statement.left)
            right, b = self._value(path, statement.right)
            value = applied(statement.function, (left, right))
            yield self._set(path, statement.register, (value, a | b))
        elif isinstance(statement, Branch):
            yield from self._branch(path, statement)
        else:
            yield from self._act(path, statement)

    def _set(self, path: Path, register: str, value: tuple[Value, Reads]) -> Path:
        return replace(path, pc=path.pc + 1, registers={**path.registers, register: value})

    def _branch(self, path: Path, branch: Branch) -> Iterator[Path]:
        if branch.comparison is None:
            yield replace(path, pc=branch.target)
            return
        left, a = self._value(path, branch.left)
        right, b = self._value(path, branch.right)
        taken = compared(branch.comparison, left, right)
        path = replace(path, control=path.control | a | b)
        for condition, pc in ((taken, branch.target), (negation(taken), path.pc + 1)):
            after = self._assume(path, condition)
            if after is not None:
                yield replace(after, pc=pc)

    # --- instructions ------------------------------------------------------------------------

    def _act(self, path: Path, act: Act) -> Iterator[Path]:
        yield from self._astray(path, act)
        for located, locations in self._addresses(path, act.addresses):
            for shaped, values in self._shapes(located, act):
                for outcome in act.outcomes or (None,):
                    yield self._execute(shaped, act, locations, values, outcome)

    def _astray(self, path: Path, act: Act) -> Iterator[Path]:
        """The path ends where an address may be no location's."""
        for operand in act.addresses:
            if isinstance(operand, Register):
                value, _ = self._value(path, operand)
                known = [compared("eq", value, address) for address in self.located]
                lost = self._assume(path, negation(disjunction(known)))
                if lost is not None:
                    yield replace(lost, cut=cut_address(act))
                    return

    def _addresses(
        self, path: Path, operands: tuple[Operand, ...]
    ) -> Iterator[tuple[Path, tuple[Location, ...]]]:
        """One path for each choice of locations that registers can hold the addresses of."""
        if not operands:
            yield path, ()
            return
        first, rest = operands[0], operands[1:]
        for after, location in self._address(path, first):
            for further, locations in self._addresses(after, rest):
                yield further, (location, *locations)

    def _address(self, path: Path, operand: Operand) -> Iterator[tuple[Path, Location]]:
        if isinstance(operand, AddressOf):
            yield path, self.test.named[operand.name]
            return
        value, _ = self._value(path, operand)
        for address, location in self.located.items():
            after = self._assume(path, compared("eq", value, address))
            if after is not None:
                yield after, location

    def _shapes(self, path: Path, act: Act) -> Iterator[tuple[Path, tuple[int, ...]]]:
        """One path for each choice of the operands that make the instruction what it is."""
        choices: list[tuple[Path, tuple[int, ...]]] = [(path, ())]
        for number, operand in enumerate(act.operands):
            if number not in act.shapes:
                choices = [(each, (*values, 0)) for each, values in choices]
                continue
            longer = []
            for each, values in choices:
                for after, value in self._constants(each, self._value(each, operand)[0]):
                    longer.append((after, (*values, value)))
            choices = longer
        yield from choices

    def _constants(self, path: Path, value: Value) -> Iterator[tuple[Path, int]]:
        if isinstance(value, int):
            yield path, value
            return
        for constant in self.constants:
            after = self._assume(path, compared("eq", value, constant))
            if after is not None:
                yield after, constant

    def _execute(
        self,
        path: Path,
        act: Act,
        locations: tuple[Location, ...],
        values: tuple[int, ...],
        outcome: int | None,
    ) -> Path:
        if outcome is not None:
            values = (*values, outcome)
        instruction = self._made(act, locations, values)
        after = self._taken(replace(path, pc=path.pc + 1), act, instruction)
        if instruction is None and outcome is not None:
            passing = (self._made(act, locations, (*values[:-1], o)) for o in act.outcomes)
            waits = [(len(path.heads), wait) for wait in passing if wait is not None]
            after = replace(after, tested=(*path.tested, *waits))
        if outcome is not None and act.result is not None:
            registers = {**after.registers, act.result: (outcome, NONE)}
            after = replace(after, registers=registers)
        return after

    def _taken(self, path: Path, act: Act, instruction: Instruction | None) -> Path:
        if instruction is None:
            return path
        given = [self._value(path, operand) for operand in act.operands]
        pointers = NONE.union(*(self._value(path, operand)[1] for operand in act.addresses))
        step = len(path.steps)
        words = [a.region.word for a in instruction.accesses if a.role in (Role.READ, Role.ATOMIC)]
        read = [
            (read_variable(self.agent, step, n), frozenset(((step, n),))) for n in range(len(words))
        ]
        written = [_evaluate(term, read, given) for term in act.writes]
        control = path.control | pointers
        taken = Taken(
            act,
            instruction,
            tuple(variable for variable, _ in read),
            tuple(value for value, _ in written),
            tuple(needs | control for _, needs in written),
            control,
        )
        facts = [self._fact(v, word) for (v, _), word in zip(read, words, strict=True)]
        known = tuple(fact for fact in facts if fact is not True)
        path = replace(path, steps=(*path.steps, taken), facts=(*path.facts, *known))
        if act.result is None or act.returns is None:
            return path
        value, needs = _evaluate(act.returns, read, given)
        registers = {**path.registers, act.result: (value, needs | pointers)}
        return replace(path, registers=registers)

    def _fact(self, variable: Value, word: object) -> Formula:
        values = self.domains.get(word)
        if values is None:
            return True
        return disjunction(compared("eq", variable, value) for value in sorted(values))

    def _made(
        self, act: Act, locations: tuple[Location, ...], values: tuple[int, ...]
    ) -> Instruction | None:
        key = (id(act), locations, values)
        if key not in self.made:
            everyone = _everyone(self.test, self.thread, act) if act.counted else 0
            made = act.make(Arguments(locations, values, everyone))
            if made is not None and self.follows:
                made = with_registers(act, made)
            self.made[key] = made
        return self.made[key]

    # --- operands ----------------------------------------------------------------------------

    def _value(self, path: Path, operand: Operand) -> tuple[Value, Reads]:
        if isinstance(operand, Register):
            return path.registers.get(operand.name, (0, NONE))
        return self._constant(operand), NONE

    def _constant(self, operand: Operand) -> int:
        if isinstance(operand, AddressOf):
            return self.test.addresses[operand.name]
        return operand if isinstance(operand, int) else 0


def _everyone(test: Test, thread: Thread, act: Act) -> int:
    """The threads of the CTA that a barrier of all threads waits for."""
    mates = [other for other in test.threads if other.cta == thread.cta]
    if act.instance is None:
        return len(mates)
    return sum(
        any(isinstance(each, Act) and each.instance == act.instance for each in mate.code)
        for mate in mates
    )


def _evaluate(
    term: Term, read: list[tuple[Value, Reads]], given: list[tuple[Value, Reads]]
) -> tuple[Value, Reads]:
    """The value of a term, and the reads in it."""
    if isinstance(term, int):
        return term, NONE
    if isinstance(term, Read):
        return read[term.index]
    if isinstance(term, Given):
        return given[term.index]
    assert isinstance(term, Apply)
    parts = [_evaluate(each, read, given) for each in term.operands]
    return applied(term.function, [v for v, _ in parts]), NONE.union(*(n for _, n in parts))
