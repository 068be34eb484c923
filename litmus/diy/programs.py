"""Random small programs: not cycles, but all sorts of instructions that hand over to each other.

Each is written along one schedule: what a wait needs stands before it there. So at least that
schedule ends, except in the few programs from which `_forget` takes a line.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from .text import Draft, seats

_SCOPES = ("cta", "cluster", "gpu", "sys")
_VIEWS = {"surface": ("suld", "sust"), "generic": ("ld", "st"), "constant": ("cold", "")}
VALUES = 3
READS = 3
"""A thread with so many registers stores instead of loading."""
FORGET = 0.08
"""How many of the programs lose one of their arrivals or barriers, and may hang."""


def program(random: Random, flavour: str, name: str, threads: int = 4, events: int = 12) -> str:
    """A random program of a flavour of `families.FLAVOURS`, as text."""
    return RandomProgram(random, flavour, name, threads, events).text()


class RandomProgram:
    """The program in the making: `budget` memory events are left."""

    def __init__(self, random: Random, flavour: str, name: str, threads: int, events: int) -> None:
        self.random = random
        self.flavour = flavour
        self.count = random.randint(2, min(threads, 2 if flavour == "cluster" else threads))
        near = {"generic": _SCOPES, "proxy": _SCOPES[:3], "remote": _SCOPES[:2]}
        near |= {"cluster": _SCOPES[:2]}
        places = near.get(flavour, ("cta",))
        steps = [random.choice(places) for _ in range(self.count - 1)]
        self.draft = Draft(name, seats(self.count, steps), titles=(f"random program, {flavour}",))
        self.budget = round(random.triangular(2, events, min(events, self.count + 3)))
        self.registers: list[list[str]] = [[] for _ in range(self.count)]
        self.names: list[str] = []
        self.fresh = 0
        self.value = 0
        self.generic = [self._declare("", "xyz"[i], 0) for i in range(random.choice((1, 2, 2, 3)))]

    def text(self) -> str:
        blocks = [*_BLOCKS[self.flavour], *_COMMON]
        while self.budget > 0:
            self.random.choice(blocks)(self, self._thread())
        self._look()
        if self.random.random() < FORGET:
            self._forget()
        shown = [*self.names, *(register for register, _ in self._registers())]
        self.draft.ending = f"locations [{' '.join(f'{item};' for item in shown)}]\n"
        self.draft.ending += f"exists ({self._condition()})"
        return self.draft.text()

    # --- parts ------------------------------------------------------------------------------

    def _thread(self) -> int:
        return self.random.randrange(self.count)

    def _other(self, thread: int) -> int:
        return self.random.choice([t for t in range(self.count) if t != thread])

    def _home(self, thread: int) -> str:
        return f" @ cta {self.draft.seats[thread].cta}"

    def _declare(self, space: str, name: str, thread: int, value: int = 0) -> str:
        home = self._home(thread) if space else ""
        self.draft.init.append(f"{space} {name}{home} = {value}".strip())
        self.names.append(name)
        return name

    def _new(self, prefix: str) -> str:
        self.fresh += 1
        return f"{prefix}{self.fresh}"

    def _emit(self, thread: int, *lines: str) -> None:
        self.draft.code[thread].extend(lines)

    def _register(self, thread: int) -> str:
        self.registers[thread].append(f"r{len(self.registers[thread]) + 1}")
        return self.registers[thread][-1]

    def _constant(self) -> int:
        """Few values, so that sets of states stay small enough to enumerate."""
        self.value += 1
        return (self.value - 1) % VALUES + 1

    def _operand(self, thread: int) -> str:
        """A value to write: a constant, or at times what the thread has read."""
        known = self.registers[thread]
        if known and self.random.random() < 0.2:
            return self.random.choice(known)
        return str(self._constant())

    def _registers(self) -> list[tuple[str, str]]:
        return [
            (f"P{thread}:{register}", register)
            for thread, registers in enumerate(self.registers)
            for register in registers
        ]

    def _condition(self) -> str:
        items = [register for register, _ in self._registers()] or self.names
        chosen = self.random.sample(items, min(len(items), self.random.randint(1, 3)))
        most = min(VALUES, max(1, self.value))
        return r" /\ ".join(f"{item} = {self.random.randint(0, most)}" for item in chosen)

    def _look(self) -> None:
        """Something to observe: a program of writes only reads once at the end."""
        if not any(self.registers):
            thread = self._thread()
            self._emit(thread, f"ld.weak {self._register(thread)}, {self.generic[0]}")

    def _forget(self) -> None:
        """Lose an arrival: some programs must hang."""
        lines = [
            (code, index)
            for code in self.draft.code
            for index, line in enumerate(code)
            if line.startswith(("mbarrier.arrive", "tcgen05.commit", "bar.", "barrier."))
        ]
        if lines:
            code, index = self.random.choice(lines)
            del code[index]

    # --- blocks: generic memory -------------------------------------------------------------

    def load(self, thread: int) -> None:
        if len(self.registers[thread]) >= READS:
            self.store(thread)
            return
        self.budget -= 1
        kind = self.random.choice(("weak", "weak", "relaxed", "acquire", "volatile"))
        place = self.random.choice(self.generic)
        self._emit(thread, f"ld.{self._with_scope(kind)} {self._register(thread)}, {place}")

    def store(self, thread: int) -> None:
        self.budget -= 1
        kind = self.random.choice(("weak", "weak", "relaxed", "release", "volatile"))
        place = self.random.choice(self.generic)
        self._emit(thread, f"st.{self._with_scope(kind)} {place}, {self._operand(thread)}")

    def _with_scope(self, sem: str) -> str:
        plain = sem in ("weak", "volatile")
        return sem if plain else f"{sem}.{self.random.choice(_SCOPES)}"

    def atomic(self, thread: int) -> None:
        self.budget -= 1
        sem = self.random.choice(("relaxed", "acquire", "release", "acq_rel"))
        place, value = self.random.choice(self.generic), self._constant()
        operation = self.random.choice(("add", "exch", "exch", "cas", "max", "or", "red"))
        if len(self.registers[thread]) >= READS:
            operation = "red"
        head = f"{sem}.{self.random.choice(_SCOPES)}"
        if operation == "red":
            self._emit(thread, f"red.{head}.add {place}, {value}")
            return
        old = f"{self.random.randint(0, 1)}, " if operation == "cas" else ""
        register = self._register(thread)
        self._emit(thread, f"atom.{head}.{operation} {register}, {place}, {old}{value}")

    def fence(self, thread: int) -> None:
        sem = self.random.choice(("sc", "sc", "acq_rel", "acquire", "release"))
        self._emit(thread, f"fence.{sem}.{self.random.choice(_SCOPES)}")

    def compute(self, thread: int) -> None:
        """Data through a register."""
        if not 0 < len(self.registers[thread]) < READS:
            self.load(thread)
            return
        source = self.random.choice(self.registers[thread])
        function = self.random.choice(("add", "xor", "mul", "max"))
        target = self._register(thread)
        self._emit(thread, f"{function} {target}, {source}, {self.random.randint(0, 2)}")

    def branch(self, thread: int) -> None:
        """A conditional access."""
        if not self.registers[thread]:
            self.load(thread)
            return
        label = self._new("L")
        comparison = self.random.choice(("beq", "bne", "bgt"))
        source, value = self.random.choice(self.registers[thread]), self.random.randint(0, 1)
        self._emit(thread, f"{comparison} {source}, {value}, {label}")
        self.random.choice((self.load, self.store, self.atomic))(thread)
        self._emit(thread, f"{label}:")

    # --- blocks: hand-offs ------------------------------------------------------------------

    def barrier(self, thread: int) -> None:
        """All threads, or two of them."""
        number = self.random.randint(0, 1) if self.count == 2 else self._bar_number()
        two = self.count > 2 and self.random.random() < 0.4
        members = [thread, self._other(thread)] if two else range(self.count)
        count = ", 2" if two else ""
        for member in members:
            self._emit(member, f"bar.sync {number}{count}")

    def _bar_number(self) -> int:
        """A number of its own, so that barriers of different members do not mix."""
        self.fresh += 1
        return self.fresh % 16

    def cluster(self, thread: int) -> None:
        pairs = ((".release", ".acquire"), (".release", ".acquire"), (".relaxed", ""))
        arrive, wait = self.random.choice(pairs)
        for member in range(self.count):
            lines = (f"barrier.cluster.arrive{arrive}", f"barrier.cluster.wait{wait}")
            self._emit(member, *lines)

    def hand_over(self, thread: int) -> None:
        """One thread arrives (or two do), another waits or tests."""
        waiter = self._other(thread)
        arrivers = [t for t in range(self.count) if t != waiter and self._maybe(0.4)] or [thread]
        barrier = self._mbarrier(waiter, len(arrivers))
        scope = self.random.choice(("cta", "cluster" if self.flavour == "remote" else "cta"))
        for arriver in arrivers:
            sem = self.random.choice(("release", "release", "relaxed"))
            self._emit(arriver, f"mbarrier.arrive.{sem}.{scope} {barrier}")
        self._await(waiter, barrier, scope)

    def ping_pong(self, thread: int) -> None:
        """Two phases of one mbarrier, there and back."""
        if self.budget < 2:
            self.load(thread)
            return
        other = self._other(thread)
        barrier = self._mbarrier(other)
        for phase, (here, there) in enumerate(((thread, other), (other, thread))):
            self._emit(here, f"mbarrier.arrive {barrier}")
            self._emit(there, f"mbarrier.try_wait.parity {barrier}, {phase}")
            self.random.choice((self.load, self.store))(there)

    def made(self, thread: int) -> None:
        """An mbarrier that the code initialises, published by a barrier of the CTA."""
        barrier, waiter = self._new("b"), self._other(thread)
        self.draft.init.append(f"mbarrier {barrier}{self._home(thread)}")
        self._emit(self._thread(), f"mbarrier.init {barrier}, 1")
        if self._maybe(0.9):
            number = self._bar_number()
            for member in range(self.count):
                self._emit(member, f"bar.sync {number}")
        self._emit(thread, f"mbarrier.arrive {barrier}")
        self._await(waiter, barrier)

    def _maybe(self, chance: float) -> bool:
        return self.random.random() < chance

    def _mbarrier(self, waiter: int, count: int = 1) -> str:
        name = self._new("b")
        self.draft.init.append(f"mbarrier {name}{self._home(waiter)} count {count}")
        return name

    def _await(self, thread: int, barrier: str, scope: str = "cta") -> None:
        sem = self.random.choice(("acquire", "acquire", "relaxed"))
        if self._maybe(0.15):
            register = self._register(thread)
            self._emit(thread, f"mbarrier.test_wait.parity.{sem}.{scope} {register}, {barrier}, 0")
        else:
            self._emit(thread, f"mbarrier.try_wait.parity.{sem}.{scope} {barrier}, 0")

    # --- blocks: proxies --------------------------------------------------------------------

    def view(self, thread: int) -> None:
        self.budget -= 1
        place = self.random.choice(self.generic)
        kind = self.random.choice(("surface", "generic", "constant"))
        name = f"{place}_{kind}"
        line = f"{name} @ {kind} aliases {place}"
        if line not in self.draft.init:
            self.draft.init.append(line)
        read, write = _VIEWS[kind]
        if write and self._maybe(0.5):
            self._emit(thread, f"{write}.weak {name}, {self._operand(thread)}")
        else:
            self._emit(thread, f"{read}.weak {self._register(thread)}, {name}")

    def proxy_fence(self, thread: int) -> None:
        kinds = {"proxy": ("surface", "alias", "constant"), "tma": ("async", "async.shared::cta")}
        kind = self.random.choice(kinds.get(self.flavour, ("async",)))
        self._emit(thread, f"fence.proxy.{kind}")

    # --- blocks: copies ---------------------------------------------------------------------

    def bulk_load(self, thread: int) -> None:
        """A TMA load of a generic location, seen by any thread or not waited for."""
        if self.budget < 3:
            self.load(thread)
            return
        self.budget -= 3
        waiter = self._thread()
        destination = self._declare("shared", self._new("s"), waiter)
        barrier = self._mbarrier(waiter)
        self._emit(
            thread,
            f"mbarrier.arrive.expect_tx {barrier}, 4",
            f"cp.async.bulk {destination}, {self.random.choice(self.generic)}, {barrier}",
        )
        if self._maybe(0.85):
            self._await(waiter, barrier)
        self._emit(waiter, f"ld.weak {self._register(waiter)}, {destination}")

    def bulk_store(self, thread: int) -> None:
        if self.budget < 3:
            self.load(thread)
            return
        self.budget -= 3
        source = self._declare("shared", self._new("s"), thread)
        self._emit(thread, f"st.weak {source}, {self._operand(thread)}")
        if self._maybe(0.7):
            self._emit(thread, "fence.proxy.async")
        self._emit(thread, f"cp.async.bulk {self.random.choice(self.generic)}, {source}")
        if self._maybe(0.7):
            read = self.random.choice(("", "", ".read"))
            wait = f"cp.async.bulk.wait_group{read} 0"
            self._emit(thread, "cp.async.bulk.commit_group", wait)

    def async_copy(self, thread: int) -> None:
        if self.budget < 3:
            self.load(thread)
            return
        self.budget -= 3
        destination = self._declare("shared", self._new("s"), thread)
        self._emit(thread, f"cp.async {destination}, {self.random.choice(self.generic)}")
        if self._maybe(0.8):
            self._emit(thread, "cp.async.commit_group", "cp.async.wait_group 0")
        self._emit(thread, f"ld.weak {self._register(thread)}, {destination}")

    # --- blocks: tensor memory --------------------------------------------------------------

    def _tensor(self) -> str:
        known = [name for name in self.names if name.startswith("t")]
        if known and self._maybe(0.7):
            return self.random.choice(known)
        return self._declare("tmem", self._new("t"), 0)

    def tensor_load(self, thread: int) -> None:
        self.budget -= 1
        self._emit(thread, f"tcgen05.ld {self._register(thread)}, {self._tensor()}")
        if self._maybe(0.7):
            self._emit(thread, "tcgen05.wait::ld")

    def tensor_store(self, thread: int) -> None:
        self.budget -= 1
        self._emit(thread, f"tcgen05.st {self._tensor()}, {self._operand(thread)}")
        if self._maybe(0.7):
            self._emit(thread, "tcgen05.wait::st")

    def tensor_product(self, thread: int) -> None:
        """An mma, committed to an mbarrier on which any thread waits."""
        self.budget -= 1
        self._emit(thread, f"tcgen05.mma {self._tensor()}")
        if self._maybe(0.8):
            waiter = self._thread()
            barrier = self._mbarrier(waiter)
            self._emit(thread, f"tcgen05.commit {barrier}")
            self._await(waiter, barrier, "cluster")
            self._emit(waiter, "tcgen05.fence::after_thread_sync")

    def tensor_fence(self, thread: int) -> None:
        side = self.random.choice(("before", "after"))
        self._emit(thread, f"tcgen05.fence::{side}_thread_sync")


Block = Callable[[RandomProgram, int], None]
P = RandomProgram
_COMMON: tuple[Block, ...] = (P.load, P.load, P.store, P.store, P.atomic, P.fence)
_COPIES: tuple[Block, ...] = (P.bulk_load, P.bulk_store, P.proxy_fence)
_TENSOR: tuple[Block, ...] = (P.tensor_load, P.tensor_store, P.tensor_product, P.tensor_fence)
_BLOCKS: dict[str, tuple[Block, ...]] = {
    "generic": (P.compute, P.branch, P.branch, P.load, P.store),
    "mixed": (P.compute, P.branch, P.hand_over, P.barrier, *_COPIES, *_TENSOR[:3]),
    "barrier": (P.barrier, P.branch),
    "cluster": (P.cluster, P.branch),
    "mbarrier": (P.hand_over, P.hand_over, P.hand_over, P.ping_pong, P.made, P.branch),
    "remote": (P.hand_over, P.hand_over),
    "tcgen05": (*_TENSOR, *_TENSOR, P.hand_over, P.barrier),
    "tma": (*_COPIES, *_COPIES, P.async_copy, P.hand_over),
    "proxy": (P.view, P.view, P.view, P.proxy_fence, P.proxy_fence),
}
