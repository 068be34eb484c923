"""Random litmus tests for the oracle `chapter8`: idioms near the border of what orders.

Threads hand over from one to the next by a flag, with release and acquire idioms of which about
half are right, between random accesses; `litmus/diy` draws other shapes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

SCOPES = ("cta", "cta", "gpu", "gpu", "gpu", "sys", "cluster")
VIEWS = {
    "x2 @ generic aliases x": ("ld", "st", "x2"),
    "s @ surface aliases x": ("suld", "sust", "s"),
    "t @ texture aliases x": ("tld", "", "t"),
    "k @ constant aliases x": ("cold", "", "k"),
    "s2 @ surface aliases x2": ("suld", "sust", "s2"),
}
PROXIES = {"ld": "", "suld": "surface", "tld": "texture", "cold": "constant"}
FLAVOURS = (*("hand-off",) * 4, *("proxy",) * 4, "buffer", "place", "place", "soup", "soup",
            "dependency", "barrier")  # fmt: skip


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
    views: list[tuple[str, str, str]] = field(default_factory=list)
    carried: list[str] = field(default_factory=list)
    """Proxy fences of the first thread that stand in a later one, where they may not count."""
    flags: list[str] = field(default_factory=lambda: ["f", "g"])

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
        """Wide enough as a rule, where one scope that is too narrow decides."""
        if self.careful and self.chance(0.85):
            return self.random.choice(("sys", "gpu"))
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

    def fence(self, good: str = "") -> None:
        """Of any semantics; `good` is what the place asks for besides acq_rel and sc."""
        sems = ["acq_rel", "acq_rel", "sc", good or "acquire", good or "release"]
        sem = self.random.choice(sems[: 3 if self.chance(0.7) else 5])
        if self.careful and self.chance(0.05):
            sem = self.random.choice(("acquire", "release"))
        self.emit(f"fence.{sem}.{self.scope()}")

    @property
    def careful(self) -> bool:
        """Most is right, so that what is not decides."""
        return self.flavour in ("hand-off", "proxy", "buffer")

    def slips(self) -> bool:
        return self.chance(0.07 if self.careful else 0.2)

    def relaxed(self) -> str:
        return "weak" if self.slips() else f"relaxed.{self.scope()}"

    def access(self) -> None:
        """Of data, in any way."""
        place = self.random.choice("xxy")
        strong = self.chance(0.35)
        kind = self.random.choice(("load", "load", "store", "store", "atomic"))
        if kind == "atomic" and strong:
            order = self.random.choice(("relaxed", "acquire", "release", "acq_rel"))
            self.atomic(place, order)
        elif kind == "load":
            self.load(place, self.strength("acquire") if strong else "weak")
        else:
            self.store(place, self.strength("release") if strong else "weak")

    def strength(self, synchronizing: str) -> str:
        sem = "relaxed" if self.chance(0.7) else synchronizing
        return f"{sem}.{self.scope()}"

    def view(self, stores: bool, fenced: float) -> None:
        """An access to x by one of its names, with its proxy's fence and an alias fence beside it
        as often as said: behind it in the first thread, before it in others."""
        load, store, name = self.random.choice([v for v in self.views if v[1] or not stores])
        fences = [PROXIES[load]] if PROXIES[load] and self.chance(fenced) else []
        if self.chance(fenced / 2):
            fences.insert(self.random.randint(0, len(fences)), "alias")
        lines = [f"fence.proxy.{kind}" for kind in fences]
        if self.thread > 0:
            self.emit(*self.carried, *lines)
            self.carried = []
        sem = f"relaxed.{self.scope()}" if self.chance(0.1) else "weak"
        if stores:
            self.store(name, sem, store)
        else:
            self.load(name, sem, load)
        if self.thread == 0 and self.chance(0.75):
            self.emit(*lines)
        elif self.thread == 0:
            self.carried = lines

    def proxy_fence(self) -> None:
        kinds = ("surface", "texture", "constant", "alias", "alias", "surface", "generic")
        self.emit(f"fence.proxy.{self.random.choice(kinds)}")

    # --- hand-offs --------------------------------------------------------------------------

    def release(self, flag: str) -> None:
        """A release pattern (§8.8), or what looks like one."""
        kind = "store" if self.slips() else self.random.choice(("one", "two", "atomic", "fence"))
        if kind == "atomic":
            self.atomic(flag, self.random.choice(("release", "acq_rel")))
        elif kind == "store":
            self.store(flag, self.relaxed())
        elif kind == "fence":
            self.fence("release")
            self.store(flag, self.relaxed())
        else:
            self.store(flag, f"release.{self.scope()}")
        if kind == "two":
            self.store(flag, self.relaxed())

    def acquire(self, flag: str) -> None:
        """An acquire pattern (§8.8), or what looks like one."""
        kind = "load" if self.slips() else self.random.choice(("one", "two", "atomic", "fence"))
        if kind in ("load", "two", "fence"):
            if self.chance(0.1):
                self.atomic(flag, "relaxed")
            else:
                self.load(flag, self.relaxed())
        if kind == "atomic":
            self.atomic(flag, self.random.choice(("acquire", "acq_rel")))
        elif kind == "fence":
            self.fence("acquire")
        elif kind != "load":
            self.load(flag, f"acquire.{self.scope()}")

    def barrier(self) -> None:
        """For most threads, some of which only arrive, between accesses."""
        for column in self.columns:
            if self.chance(0.9):
                column.append("bar.cta.arrive 1" if self.chance(0.15) else "bar.cta.sync 1")

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
        """The accesses to x of a test with proxies are by few names, so that some are by one."""
        self.columns = [[] for _ in range(self.threads)]
        names = (*VIEWS.values(), ("ld", "st", "x"))
        self.views = [self.random.choice([v for v in names if v[1]]), self.random.choice(names)]
        parts = {"hand-off": self.link, "proxy": self.link, "buffer": self.buffer}
        parts["place"] = self.place
        self.each(parts.get(self.flavour, self.part))
        if self.flavour == "barrier":
            self.barrier()
            self.each(self.access)

    def link(self) -> None:
        """A chain: data, then a hand-over to each next thread, data again; or through atomics."""
        last = self.thread == self.threads - 1
        if self.thread > 0 and not last and self.chance(0.5):
            self.atomic("f", self.random.choice(("relaxed", "relaxed", "acq_rel", "release")))
            self.flags = ["f", *self.flags]
            return
        if self.thread:
            self.acquire(self.flags[self.thread - 1])
        self.datum(stores=self.thread == 0 or self.chance(0.25))
        if not last:
            self.release(self.flags[self.thread])

    def datum(self, stores: bool) -> None:
        """x, weakly as a rule."""
        if self.flavour == "proxy":
            self.view(stores, 0.6)
            if self.chance(0.15):
                self.proxy_fence()
        elif stores:
            self.store("x", self.strength("release") if self.chance(0.15) else "weak")
        else:
            self.load("x", self.strength("acquire") if self.chance(0.15) else "weak")

    def place(self) -> None:
        """Accesses of x alone, half of them weak (§8.9.6, §8.10.5)."""
        for _ in range(self.random.choice((1, 2, 2, 3))):
            sem = self.random.choice(("weak", "relaxed.sys"))
            if self.chance(0.5):
                self.load("x", sem)
            elif self.chance(0.75):
                self.store("x", sem)
            else:
                self.atomic("x", "relaxed")

    def buffer(self) -> None:
        """A store, a fence, a load of what the next thread stores (§8.10.2)."""
        names = ("x", "y", "f")[: self.threads]
        first = self.random.choice(("weak", "relaxed"))
        self.store(names[self.thread], "weak" if first == "weak" else f"relaxed.{self.scope()}")
        if self.chance(0.2):
            self.fence()
        else:
            self.emit(f"fence.sc.{self.scope()}")
        self.load(
            names[(self.thread + 1) % self.threads], self.random.choice(("weak", "relaxed.sys"))
        )

    def each(self, part: Callable[[], None]) -> None:
        for thread in range(self.threads):
            self.thread = thread
            part()

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
    budget = random.choice((4, 5, 6, 6, 7)) if flavour == "soup" else 8
    return Draft(random, flavour, f"{flavour}-{seed}-{index}", threads, budget).text()
