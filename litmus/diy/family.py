"""Families of tests: random cycles and random small programs, the same for the same seed.

Cycles ask for outcomes near the border of what the model forbids; programs ask for whole sets of
states, so that two engines can be compared. Everything is drawn from one `random.Random`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

from ...model.program import InputError
from .edges import SCOPES, Mark, mark
from .programs import program

CYCLES = 0.6
"""The part of a family that is cycles; the rest is programs."""

ATTEMPTS = 100
"""How often a cycle is drawn before a program stands in: two events make no cycle, for instance."""


def family(
    seed: int,
    count: int,
    make: Callable[[list[str], str, str], str],
    threads: int = 4,
    events: int = 12,
) -> Iterator[tuple[str, str]]:
    """`count` tests, (name, text) each, of at most so many threads and memory events.

    `make` is the generator of cycles: from a cycle, a name and a placement to the text.
    """
    if threads < 2 or events < 2:
        raise InputError("a family needs at least 2 threads and 2 events")
    for index in range(count):
        random = Random(f"{seed}/{index}/{threads}/{events}")
        flavour = random.choice(sorted(FLAVOURS))
        name = f"{flavour}-{seed}-{index:04}"
        text = None
        if random.random() < CYCLES:
            text = _cycle_test(random, FLAVOURS[flavour], name, make, threads, events)
        yield name, text or program(random, flavour, name, threads, events)


def _cycle_test(
    random: Random,
    flavour: Flavour,
    name: str,
    make: Callable[[list[str], str, str], str],
    threads: int,
    events: int,
) -> str | None:
    """Draw until a cycle type-checks: some draws contradict themselves in coherence order."""
    for _ in range(ATTEMPTS):
        cycle = RandomCycle(random, flavour, threads, events)
        try:
            return make(cycle.words(), name, cycle.placement)
        except InputError:
            continue
    return None


# --- what a flavour is made of --------------------------------------------------------------------


@dataclass(frozen=True)
class Flavour:
    """Kinds of locations, how threads hand over, and how they are placed."""

    locations: tuple[str, ...]
    hand_offs: tuple[str, ...] = ()
    placements: tuple[str, ...] = ("cta",)
    fences: tuple[str, ...] = ()
    threads: int = 4


_ANYWHERE = ("cta", "cluster", "gpu", "sys")
_MBAR = tuple(
    f"Mbar.{arrive}.{wait}.cta"
    for arrive in ("release", "relaxed")
    for wait in ("acquire", "acquire", "relaxed")
)
_PROXY = ("Fence.proxy.async", "Fence.proxy.async.shared::cta", "Fence.proxy.async.global")
FLAVOURS: dict[str, Flavour] = {
    "generic": Flavour(("generic",), placements=("warp", *_ANYWHERE)),
    "mixed": Flavour(("generic", "generic", "tmem", "loaded"), (*_MBAR, "BarSync"), fences=_PROXY),
    "barrier": Flavour(("generic",), ("BarSync", "BarSync", "BarArrive")),
    "cluster": Flavour(
        ("generic",), ("ClusterSync", "ClusterSync.relaxed"), ("cta", "cluster"), threads=2
    ),
    "mbarrier": Flavour(("generic",), _MBAR),
    "remote": Flavour(
        ("generic",),
        tuple(step.replace(".cta", ".cluster") for step in _MBAR) + ("Mbar.release.acquire.cta",),
        ("cta", "cluster"),
    ),
    "tcgen05": Flavour(("tmem", "tmem", "generic"), (*_MBAR, "BarSync")),
    "tma": Flavour(("loaded", "sent", "generic"), (*_MBAR, "BarSync"), fences=_PROXY),
    "proxy": Flavour(
        ("surface", "alias", "constant", "generic"),
        placements=_ANYWHERE[:3],
        fences=tuple(f"Fence.proxy.{p}" for p in ("surface", "alias", "constant", "generic")),
    ),
}

_MARKS: dict[tuple[str, str], tuple[str, ...]] = {
    ("surface", "R"): ("Surf", "Surf.Rlx.gpu", "Tex", "Weak"),
    ("surface", "W"): ("Surf", "Surf.Rlx.gpu", "Weak"),
    ("alias", "R"): ("Alias", "Alias.Rlx.gpu", "Weak"),
    ("alias", "W"): ("Alias", "Alias.Rlx.gpu", "Weak"),
    ("constant", "R"): ("Const", "Const", "Weak"),
    ("constant", "W"): ("Weak",),
    ("tmem", "R"): ("Tcgen05", "Tcgen05", "Mma"),
    ("tmem", "W"): ("Tcgen05", "Tcgen05", "Mma", "Mma.acc", "Cp"),
    ("loaded", "R"): ("Weak", "Weak", "Tma.store"),
    ("loaded", "W"): ("Tma", "Tma", "Weak"),
    ("sent", "R"): ("Weak", "Tma"),
    ("sent", "W"): ("Weak", "Tma.store"),
}
"""Annotations by kind of location and direction; `loaded` is shared, `sent` global memory."""


def generic_mark(random: Random, direction: str) -> str:
    """Weak in four of ten, else any strength and scope that the direction has."""
    scope = random.choice(SCOPES)
    sem = {"R": "Acq", "W": "Rel"}[direction]
    kinds = ["Weak"] * 8 + [f"Rlx.{scope}"] * 4 + [f"{sem}.{scope}"] * 5 + ["Volatile"]
    order = random.choice(("Rlx", "Acq", "Rel", "AcqRel"))
    kinds += [f"Amo.{random.choice(('add', 'exch', 'cas', 'max'))}.{order}.{scope}"]
    return random.choice(kinds + ([f"Red.add.{order}.{scope}"] if direction == "W" else []))


# --- one random cycle -----------------------------------------------------------------------------


@dataclass
class _Spot:
    """An event before its instruction is chosen: the directions that its two edges see."""

    into: str
    out: str
    moves: bool
    """Does the edge that leaves it go to another location?"""
    last: bool
    """Does the edge that leaves it leave the thread?"""
    kind: str = "generic"
    mark: Mark = field(default_factory=Mark)


class RandomCycle:
    """Directions and locations first, then instructions by kind of location, then what fits."""

    def __init__(self, random: Random, flavour: Flavour, threads: int, events: int) -> None:
        self.random = random
        self.flavour = flavour
        count = random.randint(2, min(threads, events, flavour.threads))
        self.spots = self._spots(count, events)
        self._kinds()
        self.placement = "+".join(random.choice(flavour.placements) for _ in range(count - 1))

    def words(self) -> list[str]:
        found: list[str] = []
        for spot, following in zip(self.spots, [*self.spots[1:], self.spots[0]], strict=True):
            found += [spot.mark.text, self._edge(spot, following)]
        return found

    def _spots(self, threads: int, events: int) -> list[_Spot]:
        most = max(threads, min(events, 3 * threads))
        total = round(self.random.triangular(threads, most, min(most, 2 * threads)))
        ends = {*self.random.sample(range(total - 1), threads - 1), total - 1}
        return [self._spot(index in ends) for index in range(total)]

    def _spot(self, last: bool) -> _Spot:
        into = out = self.random.choice("RW")
        if self.random.random() < 0.08:
            out = self.random.choice("RW")
        return _Spot(into, out, not last and self.random.random() < 0.8, last)

    def _kinds(self) -> None:
        """A kind for each location, and an instruction of it for each of its events."""
        random = self.random
        count = max(1, sum(spot.moves for spot in self.spots))
        kinds = [random.choice(self.flavour.locations) for _ in range(count)]
        location = 0
        for spot in self.spots:
            spot.kind = kinds[location % count]
            spot.mark = self._mark(spot)
            location += spot.moves

    def _mark(self, spot: _Spot) -> Mark:
        if spot.into != spot.out:
            word = (
                "Mma.acc" if spot.kind == "tmem" else f"Amo.{self.random.choice(('add', 'exch'))}"
            )
        elif spot.kind == "generic":
            word = generic_mark(self.random, spot.out)
        else:
            word = self.random.choice(_MARKS[spot.kind, spot.out])
        return mark(word) or Mark()

    # --- edges ------------------------------------------------------------------------------

    def _edge(self, spot: _Spot, following: _Spot) -> str:
        sides = spot.out + following.into
        if not spot.last:
            return self._inside(spot, sides)
        name = {"WR": "Rfe", "RW": "Fre", "WW": "Coe"}.get(sides)
        closing = following is self.spots[0]
        if name and (closing or not self.flavour.hand_offs or self.random.random() < 0.45):
            return name
        if not self.flavour.hand_offs:
            return "Rfe"  # two reads have no communication; the draw is refused
        return f"{self._hand_off(spot, following)}s{sides}"

    def _inside(self, spot: _Spot, sides: str) -> str:
        at = "d" if spot.moves else "s"
        draw = self.random.random()
        if sides[0] == "R" and spot.mark.returns and draw < 0.2:
            return f"DpCtrl{at}{sides[1]}" if draw < 0.1 or sides[1] == "R" else f"DpData{at}W"
        if not spot.moves and sides != "RR" and draw > 0.9:
            return {"WR": "Rfi", "RW": "Fri", "WW": "Coi"}[sides]
        steps = self._completion(spot) + self._fences()
        return f"{'+'.join(steps) or 'Po'}{at}{sides}"

    def _fences(self) -> list[str]:
        draw = self.random.random()
        if self.flavour.fences and draw < 0.4:
            return [self.random.choice(self.flavour.fences)]
        if draw < 0.6:
            return []
        sem = self.random.choice(("sc", "acq_rel", "acq_rel", "acquire", "release"))
        return [f"Fence.{sem}.{self.random.choice(SCOPES)}"]

    def _completion(self, spot: _Spot) -> list[str]:
        """What the thread waits for before it goes on; now and then it forgets."""
        if self.random.random() < 0.2:
            return []
        wait = self.random.choice(("acquire", "relaxed"))
        step = {
            "tcgen05": "Wait::ld" if spot.out == "R" else "Wait::st",
            "mma": f"Commiti.{wait}.cluster",
            "mma.acc": f"Commiti.{wait}.cluster",
            "cp": f"Commiti.{wait}.cluster",
            "tma": f"Tmai.{wait}.cta",
            "tma.store": "Bulk",
        }.get(spot.mark.kind)
        return [step] if step else []

    def _hand_off(self, spot: _Spot, following: _Spot) -> str:
        """Completion, the hand-off, and for tensor memory the fences of both sides."""
        steps = self._handing(spot)
        if following.mark.tensor and self.random.random() < 0.6:
            steps = [*steps, "After"]
        return "+".join(steps)

    def _handing(self, spot: _Spot) -> list[str]:
        half = self.random.random() < 0.5
        wait = self.random.choice(("acquire", "relaxed"))
        if half and spot.mark.kind in ("mma", "mma.acc", "cp"):
            return [f"Commite.{wait}.cluster"]
        if half and spot.mark.kind == "tma":
            return [f"Tmae.{wait}.cta"]
        fence = ["Before"] if spot.mark.tensor and half else self._fences()
        return [*self._completion(spot), *fence, self.random.choice(self.flavour.hand_offs)]
