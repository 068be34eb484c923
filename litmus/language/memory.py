"""The memory of a test: what the init block declares and what the code uses without declaring."""

from __future__ import annotations

from dataclasses import replace

from ...model.axiomatic.code import Location, Place
from ...model.instructions import Proxy
from ...model.program import Barrier, Region, Space
from ...model.suggest import suggestion
from .placement import Seat, cta_of
from .syntax import Alias, Declaration, Mistake

SPACES = {"global": Space.GLOBAL, "shared": Space.SHARED, "tmem": Space.TMEM}
DECLARERS = (*SPACES, "mbarrier")
VIEWS = {
    proxy.value: proxy for proxy in (Proxy.GENERIC, Proxy.SURFACE, Proxy.TEXTURE, Proxy.CONSTANT)
}
BARRIER_BYTES = 8
OBJECTS = 2**20
"""Where the mbarrier objects lie in shared memory: above every location (`Location.offset`)."""
MOST_ARRIVALS = 2**20 - 1
"""PTX ISA §9.7.15.16: the range of an mbarrier's counts."""


class Memory:
    """The locations and mbarriers by name, while a test is put together."""

    def __init__(self, seats: tuple[Seat, ...]) -> None:
        self.seats = seats
        self.barriers: dict[str, Barrier] = {}
        self.declared: dict[str, Place] = {}
        self._locations: dict[str, Location] = {}
        self._spaces: dict[str, tuple[Space, int]] = {}
        self._initials: dict[str, int] = {}

    # declarations

    def declare(self, item: Declaration) -> None:
        if item.space and item.space not in DECLARERS:
            legal = ", ".join(DECLARERS)
            hint = suggestion(item.space, DECLARERS)
            raise Mistake(item.place, f"`{item.space}` declares nothing; legal: {legal}{hint}")
        self._once(item.name, item.place)
        if item.space == "mbarrier":
            self._declare_barrier(item)
            return
        if item.arrivals is not None:
            raise Mistake(item.place, f"only an mbarrier has a count, and `{item.name}` is memory")
        space = SPACES[item.space or "global"]
        if space is Space.GLOBAL and item.level is not None:
            raise Mistake(item.place, "global memory belongs to no CTA; leave out the `@`")
        cta = -1 if space is Space.GLOBAL else cta_of(self.seats, item.level, item.place)
        location = self._create(item.name, item.place, space, cta)
        if item.value is not None:
            self._initials[location.memory] = self._initial(item)

    def _initial(self, item: Declaration) -> int:
        """The value; another location there stands for its initial value."""
        assert item.value is not None
        if item.value.number is not None:
            return item.value.number
        return self._initials.get(self._existing(item.value.name, item.value.place).memory, 0)

    def _declare_barrier(self, item: Declaration) -> None:
        if item.value is not None:
            raise Mistake(
                item.place, f"an mbarrier has no value; write `mbarrier {item.name} count N`"
            )
        cta = cta_of(self.seats, item.level, item.place)
        region = None
        if item.arrivals is None:
            start = OBJECTS + BARRIER_BYTES * len(self.barriers)
            region = Region(Space.SHARED, cta, (start, start + BARRIER_BYTES), array=item.name)
        elif not 1 <= item.arrivals <= MOST_ARRIVALS:
            raise Mistake(item.place, f"an mbarrier's count is from 1 to {MOST_ARRIVALS}")
        self.barriers[item.name] = Barrier(item.name, None, cta, item.arrivals, region)

    def alias(self, item: Alias) -> None:
        """A second name: `generic` is a virtual address of its own (in tensor memory a place that
        starts elsewhere and overlaps), the others are views of the target's address through
        another proxy (§8.6)."""
        view = VIEWS.get(item.view)
        if view is None:
            hint = suggestion(item.view, VIEWS)
            raise Mistake(
                item.place,
                f"`{item.view}` is no proxy; legal: {', '.join(VIEWS)}{hint}",
            )
        self._once(item.name, item.place)
        target = self._existing(item.target, item.place)
        if target.space is Space.TMEM and view is not Proxy.GENERIC:
            raise Mistake(item.place, "tensor memory is not accessed through another proxy")
        address = item.name if view is Proxy.GENERIC else target.address
        self._locations[item.name] = replace(target, name=item.name, address=address, proxy=view)

    def _once(self, name: str, place: Place) -> None:
        if name in self.declared:
            line = self.declared[name].line
            raise Mistake(place, f"`{name}` is declared twice (first on line {line})")
        self.declared[name] = place

    def _existing(self, name: str, place: Place) -> Location:
        """A location that was declared before this declaration."""
        if name in self.barriers:
            raise Mistake(place, f"`{name}` is an mbarrier, not a location")
        if not self.known(name):
            hint = suggestion(name, self._locations)
            raise Mistake(place, f"`{name}` must be declared before it is used here{hint}")
        return self.find(name, place)

    def _create(self, name: str, place: Place, space: Space, cta: int) -> Location:
        base = name.split("[")[0]
        if self._spaces.setdefault(base, (space, cta)) != (space, cta):
            raise Mistake(place, f"all elements of `{base}` are in one memory")
        location = Location(name, name, name, space, cta)
        self._locations[name] = location
        return location

    # use

    def known(self, name: str) -> bool:
        """Was it declared, by itself or as an element of what was declared?"""
        return name in self._locations or name.split("[")[0] in self._spaces

    def find(self, name: str, place: Place) -> Location:
        """The location; one that was not declared is global and 0."""
        location = self._locations.get(name)
        if location is not None:
            return location
        if name in self.barriers:
            raise Mistake(place, f"`{name}` is an mbarrier; only mbarrier operations use it")
        base = name.split("[")[0]
        alias = self._locations.get(base)
        if alias is not None and alias.memory != base:
            raise Mistake(
                place,
                f"`{base}` is a second name of one word; declare `{name}` as an alias too",
            )
        space, cta = self._spaces.get(base, (Space.GLOBAL, -1))
        return self._create(name, place, space, cta)

    def barrier(self, name: str, place: Place) -> Barrier:
        if name not in self.barriers:
            hint = suggestion(name, self.barriers) or f"; declare `mbarrier {name} count N`"
            raise Mistake(place, f"`{name}` is no mbarrier{hint}")
        return self.barriers[name]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._locations)

    def locations(self) -> tuple[Location, ...]:
        """All of them; names of one word share its initial value."""
        return tuple(
            replace(location, initial=self._initials.get(location.memory, 0))
            for location in self._locations.values()
        )
