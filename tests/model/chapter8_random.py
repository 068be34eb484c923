"""Random litmus tests for the oracle `chapter8`: idioms near the border of what orders.

Threads hand over from one to the next by a flag, with release and acquire idioms of which about
half are right, between random accesses; `litmus/diy` draws other shapes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

SCOPES = ("cta", "cta", "gpu", "gpu", "gpu", "sys", "cluster")
VIEWS = {"x2 @ generic aliases x": ("ld", "st", "x2"), "s @ surface aliases x": ("suld", "sust", "s"),
         "t @ texture aliases x": ("tld", "", "t"), "k @ constant aliases x": ("cold", "", "k"),
         "s2 @ surface aliases x2": ("suld", "sust", "s2")}  # fmt: skip
FLAVOURS = ("scopes", "scopes", "proxy", "proxy", "dependency", "barrier")
SECTIONS = {"proxy": 0.75, "dependency": 0.3}
"""How much of a thread's access is by the flavour's own instructions."""


@dataclass
class Draft:
    """A test in the making; `budget` memory accesses are left."""

    random: Random
    flavour: str
    name: str
    threads: int = 2
    budget: int = 7
    columns: list[list[str]] = field(default_factory=list)
    registers: list[str] = field(default_factory=list)
    value: int = 0
    thread: int = 0
    labels: int = 0

    def chance(self, part: float) -> bool:
        return self.random.random() < part

    def emit(self, *lines: str) -> None:
        self.columns[self.thread] += lines

    def register(self) -> str:
        mine = sum(name.startswith(f"P{self.thread}:") for name in self.registers)
        self.registers.append(f"P{self.thread}:r{mine}")
        return f"r{mine}"

    def known(self) -> list[str]:
        """What the thread has loaded."""
        mine = f"P{self.thread}:"
        return [name.removeprefix(mine) for name in self.registers if name.startswith(mine)]

    def scope(self) -> str:
        return self.random.choice(SCOPES[:-1] if self.flavour == "proxy" else SCOPES)

    def constant(self) -> str:
        self.value += 1
        known = self.known()
        if known and self.chance(0.5 if self.flavour == "dependency" else 0.1):
            return self.random.choice(known)
        return str(self.value % 3 + 1)

    # --- accesses ---------------------------------------------------------------------------

    def load(self, place: str, sem: str, letter: str = "ld") -> None:
        if self.spend():
            self.emit(f"{letter}.{sem} {self.register()}, {place}")

    def store(self, place: str, sem: str, letter: str = "st") -> None:
        if self.spend():
            self.emit(f"{letter}.{sem} {place}, {self.constant()}")

    def atomic(self, place: str, sem: str) -> None:
        if self.budget >= 2 and self.spend():
            kind = self.random.choice(("add", "exch", "cas", "red"))
            order = f"{sem}.{self.scope()}"
            if kind == "red":
                self.emit(f"red.{order}.add {place}, 1")
            elif kind == "cas":
                old, new = self.random.randint(0, 1), self.constant()
                self.emit(f"atom.{order}.cas {self.register()}, {place}, {old}, {new}")
            else:
                new = self.constant()
                self.emit(f"atom.{order}.{kind} {self.register()}, {place}, {new}")

    def spend(self) -> bool:
        self.budget -= 1
        return self.budget >= 0

    def fence(self) -> None:
        sems = ("acq_rel", "acq_rel", "sc", "sc", "acquire", "release")
        self.emit(
            f"fence.{self.random.choice(sems[: 4 if self.chance(0.8) else 6])}.{self.scope()}"
        )

    def access(self) -> None:
        """Of data, in any way."""
        if self.flavour == "proxy" and self.chance(0.75):
            return self.view()
        place = self.random.choice("xxy")
        strong = self.chance(0.35)
        kind = self.random.choice(("load", "load", "store", "store", "atomic"))
        if kind == "atomic" and strong:
            return self.atomic(
                place, self.random.choice(("relaxed", "acquire", "release", "acq_rel"))
            )
        if kind == "load":
            return self.load(place, self.strength("acquire") if strong else "weak")
        return self.store(place, self.strength("release") if strong else "weak")

    def strength(self, synchronizing: str) -> str:
        sem = "relaxed" if self.chance(0.7) else synchronizing
        return f"{sem}.{self.scope()}"

    def view(self) -> None:
        """An access to x by one of its other names, at times with a fence beside it."""
        load, store, name = self.random.choice((*VIEWS.values(), ("ld", "st", "x")))
        if self.chance(0.3):
            self.proxy_fence()
        sem = self.strength("") if self.chance(0.15) else "weak"
        sem = sem if not sem.startswith(".") else "weak"
        if store and self.chance(0.5):
            self.store(name, sem, store)
        else:
            self.load(name, sem, load)
        if self.chance(0.3):
            self.proxy_fence()

    def proxy_fence(self) -> None:
        kinds = ("surface", "texture", "constant", "alias", "alias", "surface", "generic")
        self.emit(f"fence.proxy.{self.random.choice(kinds)}")

    # --- hand-offs --------------------------------------------------------------------------

    def release(self, flag: str) -> None:
        """A release pattern (§8.8), or what looks like one."""
        kind = self.random.randrange(6)
        if kind == 0:
            self.store(flag, f"release.{self.scope()}")
        elif kind == 1:
            self.store(flag, f"release.{self.scope()}")
            self.store(flag, f"relaxed.{self.scope()}" if self.chance(0.8) else "weak")
        elif kind == 2:
            self.atomic(flag, self.random.choice(("release", "acq_rel", "relaxed")))
        elif kind == 3:
            self.store(flag, self.strength("release"))
        else:
            self.fence()
            self.store(flag, f"relaxed.{self.scope()}" if self.chance(0.85) else "weak")

    def acquire(self, flag: str) -> None:
        """An acquire pattern (§8.8), or what looks like one."""
        kind = self.random.randrange(6)
        if kind == 0:
            self.load(flag, f"acquire.{self.scope()}")
        elif kind == 1:
            self.load(flag, f"relaxed.{self.scope()}" if self.chance(0.8) else "weak")
            self.load(flag, f"acquire.{self.scope()}")
        elif kind == 2:
            self.atomic(flag, self.random.choice(("acquire", "acq_rel", "relaxed")))
        elif kind == 3:
            self.load(flag, self.strength("acquire"))
        else:
            self.load(flag, f"relaxed.{self.scope()}" if self.chance(0.85) else "weak")
            self.fence()

    def barrier(self) -> None:
        for self.thread in range(self.threads):
            if self.chance(0.9):
                one = "bar.cta.arrive 1" if self.chance(0.15) else "bar.cta.sync 1"
                self.emit(one)

    def branch(self) -> str:
        """Skip what follows when a value is what it is; the label to put behind it."""
        self.labels += 1
        label = f"L{self.labels}"
        comparison = self.random.choice(("beq", "bne"))
        self.emit(
            f"{comparison} {self.random.choice(self.known())}, {self.random.randint(0, 1)}, {label}"
        )
        return label

    # --- whole tests ------------------------------------------------------------------------

    def fill(self) -> None:
        self.columns = [[] for _ in range(self.threads)]
        for self.thread in range(self.threads):
            self.part()
            if self.flavour == "barrier" and self.thread == self.threads - 1:
                self.barrier()
                for self.thread in range(self.threads):
                    self.access()
                break

    def part(self) -> None:
        """One thread: take over, touch data, maybe skip something, hand over."""
        flags = ("f", "g") if self.chance(0.75) else ("f", "f")
        if self.flavour != "barrier" and (self.thread or self.chance(0.2)):
            self.acquire(flags[(self.thread + 1) % 2])
        label = self.branch() if self.flavour == "dependency" and self.known() else ""
        for _ in range(self.random.choice((1, 1, 2))):
            self.access()
        if self.chance(0.25):
            self.fence()
        if label:
            self.emit(f"{label}:")
        if self.flavour != "barrier" and (self.thread < self.threads - 1 or self.chance(0.2)):
            self.release(flags[self.thread % 2])
        if self.chance(0.3):
            self.access()

    def text(self) -> str:
        self.fill()
        seats = [self.seat() for _ in range(self.threads)]
        init = ["x = 0", "y = 0", "f = 0", "g = 0"]
        init += VIEWS if self.flavour == "proxy" else []
        head = " | ".join(f"P{index}@{seat}" for index, seat in enumerate(seats))
        rows = [f" {head} ;"]
        for line in range(max(map(len, self.columns))):
            cells = [column[line] if line < len(column) else "" for column in self.columns]
            rows.append(f" {' | '.join(cells)} ;")
        shown = " ".join(f"{name};" for name in ("x", "y", "f", "g", *self.registers))
        lines = [f"PTX {self.name}", "{", *(f"{item};" for item in init), "}", *rows]
        return "\n".join([*lines, f"locations [{shown}]", "exists true", ""])

    def seat(self) -> str:
        far = 0.1 if self.flavour == "barrier" else 0.45
        numbers = [int(self.chance(far)), int(self.chance(0.2)), int(self.chance(0.2))]
        return ",".join(f"{k} {n}" for k, n in zip(("cta", "cluster", "gpu"), numbers, strict=True))


def random_test(seed: int, index: int) -> str:
    """The text of a test, the same for the same seed and index."""
    random = Random(f"{seed}/{index}")
    flavour = random.choice(FLAVOURS)
    threads = random.choice((2, 2, 2, 3))
    budget = random.choice((4, 5, 6, 6, 7))
    return Draft(random, flavour, f"{flavour}-{seed}-{index}", threads, budget).text()
