"""Registers while the graph is built: which loads a use needs, and what a value stands for.

Branches make this a question of reaching definitions: a definition under a guard may or may not
reach a use outside it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .graph import Guard, Value


@dataclass(frozen=True)
class Definition:
    """A register's definition: loads it certainly, and perhaps, depends on; its value."""

    guard: Guard
    loads: int
    perhaps: int
    value: int


@dataclass
class RegisterFile:
    """The registers of one agent; `values` is shared by all (see `Graph.values`)."""

    values: list[Value]
    definitions: dict[str, list[Definition]] = field(default_factory=dict)

    def define(self, register: str, guard: Guard, loads: int, perhaps: int, value: Value) -> None:
        """An unconditional definition ends the earlier ones; a guarded one joins them."""
        known = self.definitions.setdefault(register, [])
        if not guard:
            known.clear()
        known.append(Definition(guard, loads, perhaps, self._number(value)))

    def compute(
        self, register: str, function: str, operands: tuple[str, ...], guard: Guard
    ) -> None:
        """Arithmetic orders nothing: it only passes on what its operands stand for."""
        value = Value(function, self.read(operands, guard))
        loads, perhaps = self.loads(operands, guard), self.perhaps(operands, guard)
        self.define(register, guard, loads, perhaps, value)

    def loads(self, registers: tuple[str, ...], guard: Guard) -> int:
        """Loads whose value a use of `registers` needs, whichever way branches went."""
        loads = 0
        for register in registers:
            reaching = self._reaching(register, guard)
            if reaching:
                certain = -1
                for definition in reaching:
                    certain &= definition.loads
                loads |= certain
        return loads

    def perhaps(self, registers: tuple[str, ...], guard: Guard) -> int:
        """Loads that some branch outcome makes `registers` depend on."""
        loads = 0
        for register in registers:
            for definition in self._reaching(register, guard):
                loads |= definition.perhaps
        return loads

    def read(self, registers: tuple[str, ...], guard: Guard) -> tuple[int, ...]:
        """The values of registers, as indices into `values`; not known where definitions meet."""
        found = []
        for register in registers:
            reaching = self._reaching(register, guard)
            one = len(reaching) == 1
            undefined = Value(f"undefined {register}")
            found.append(reaching[0].value if one else self._number(undefined))
        return tuple(found)

    def constant(self, text: str) -> int:
        return self._number(Value(f"constant {text}"))

    def _number(self, value: Value) -> int:
        self.values.append(value)
        return len(self.values) - 1

    def _reaching(self, register: str, guard: Guard) -> list[Definition]:
        """Definitions that may reach a use: back to the first that certainly does."""
        known = self.definitions.get(register, [])
        if len(known) == 1 and not known[0].guard:
            return known
        found = []
        for definition in reversed(known):
            excluded = any((choice, not outcome) in guard for choice, outcome in definition.guard)
            if not excluded:
                found.append(definition)
                if definition.guard <= guard:
                    break
        return found
