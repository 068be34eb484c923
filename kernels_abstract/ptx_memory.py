"""Addresses and what is stored there.

Every buffer has an address range of its own, far from the others, so that the buffer and offset of
an access can be read off the address. Shared memory is addressed from 0 in its own window, with
the rank of the CTA in the cluster above bit 24; generic addresses add the window's base
(PTX ISA §5.1, §6.4).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

from ..model.program import Region, Space

RANGE_BITS = 44
MIDDLE = 1 << (RANGE_BITS - 1)
FIRST_BUFFER = 16
"""Buffer k starts in the middle of range FIRST_BUFFER + k: offsets may be negative."""

SHARED_WINDOW = 1 << RANGE_BITS
LOCAL_WINDOW = 2 << RANGE_BITS
CTA_SHIFT = 24


class AddressError(Exception):
    """No variable or buffer is at this address."""


@dataclass(frozen=True)
class Placement:
    """A variable and the offset of its first byte in its memory."""

    name: str
    start: int
    bytes: int | None
    """None: size not known (a buffer, dynamic shared memory)."""


@dataclass(frozen=True, slots=True)
class Location:
    """Where an access goes. `cta` is -1 for global memory.

    Offsets count from the start of the state space, so that buffers do not overlap.
    """

    space: str
    array: str
    offset: int
    cta: int = -1
    origin: int = 0
    """Where the variable starts: indices count from here."""

    def moved(self, by: int) -> Location:
        return Location(self.space, self.array, self.offset + by, self.cta, self.origin)


def readable(symbol: str) -> str:
    """The last name of a mangled C++ symbol (`_ZZ4ringE4full` is `full`)."""
    if not symbol.startswith("_Z"):
        return symbol
    name = symbol
    position = 0
    while match := re.search(r"\d+", symbol[position:]):
        length = int(match.group())
        start = position + match.end()
        part = symbol[start : start + length]
        if re.fullmatch(r"[A-Za-z_]\w*", part) and len(part) == length:
            name, position = part, start + length
        else:
            position = start
    return name


class AddressSpace:
    """Lays out buffers, shared variables and local variables; resolves addresses."""

    def __init__(self, ctas: int) -> None:
        self.ctas = ctas
        self.buffers: list[str] = []
        self.shared: list[Placement] = []
        self._shared_starts: list[int] = []
        self.symbols: dict[str, int] = {}
        """Addresses of variables in their own windows."""

    def add_buffer(self, name: str) -> int:
        if name not in self.buffers:
            self.buffers.append(name)
        index = FIRST_BUFFER + self.buffers.index(name)
        return (index << RANGE_BITS) + MIDDLE

    def add_shared(self, symbol: str, size: int, align: int, dynamic: bool) -> None:
        last = self.shared[-1] if self.shared else Placement("", 0, 0)
        start = -(-(last.start + (last.bytes or 0)) // align) * align
        self.shared.append(Placement(readable(symbol), start, None if dynamic else size))
        self._shared_starts.append(start)
        self.symbols[symbol] = start

    def locate(self, space: str, address: int) -> Location:
        """The location of an address in a window (`shared`, `global`) or generic (`generic`)."""
        window = address >> RANGE_BITS
        if space == "shared" or window == SHARED_WINDOW >> RANGE_BITS:
            return self._locate_shared(address & (SHARED_WINDOW - 1))
        if space == "local" or window == LOCAL_WINDOW >> RANGE_BITS:
            return Location("local", "", address & (LOCAL_WINDOW - 1))
        if not 0 <= window - FIRST_BUFFER < len(self.buffers):
            raise AddressError(f"no buffer is at address {address:#x}")
        start = (window << RANGE_BITS) + MIDDLE
        return Location("global", self.buffers[window - FIRST_BUFFER], address, origin=start)

    def _locate_shared(self, address: int) -> Location:
        cta, offset = divmod(address, 1 << CTA_SHIFT)
        if cta >= self.ctas:
            raise AddressError(f"shared address {address:#x} is in no CTA of the cluster")
        index = bisect_right(self._shared_starts, offset) - 1
        if index >= 0:
            found = self.shared[index]
            if found.bytes is None or offset < found.start + found.bytes:
                return Location("shared", found.name, offset, cta, found.start)
        raise AddressError(f"no shared variable is at offset {offset}")


def region_of(location: Location, size: int, element: int) -> Region:
    """The bytes of an access of `size` bytes; indices count elements of `element` bytes."""
    return Region(
        Space.SHARED if location.space == "shared" else Space.GLOBAL,
        location.cta,
        (location.offset, location.offset + size),
        array=location.array,
        index=(location.offset - location.origin) // element,
    )


class Memory:
    """Contents, byte by byte: a known value or none, and the number of the store that wrote it."""

    def __init__(self, contents: dict[str, list[int]]) -> None:
        self._contents = contents
        self._bytes: dict[tuple[str, str, int], dict[int, tuple[int | None, int]]] = {}
        self._stores = 0

    def load(self, location: Location, size: int) -> tuple[int | None, int]:
        """The value if all its bytes are known, and the number of the last store into it."""
        cells = self._bytes.get((location.space, location.array, location.cta))
        if cells is None:
            return self._given(location, size), 0
        found = [cells.get(byte) for byte in range(location.offset, location.offset + size)]
        version = max(0 if cell is None else cell[1] for cell in found)
        if version == 0:
            return self._given(location, size), 0
        value = 0
        for i, cell in enumerate(found):
            if cell is None or cell[0] is None:
                return None, version
            value |= cell[0] << (8 * i)
        return value, version

    def _given(self, location: Location, size: int) -> int | None:
        """An element of the contents that the user gave for a buffer, counted in accesses."""
        given = self._contents.get(location.array) if location.space == "global" else None
        index, rest = divmod(location.offset - location.origin, size)
        if given is None or rest or not 0 <= index < len(given):
            return None
        return given[index] & ((1 << (8 * size)) - 1)

    def next_store(self) -> int:
        """The number of the next store instruction (all its lanes count as one)."""
        self._stores += 1
        return self._stores

    def store(self, location: Location, size: int, value: int | None, number: int) -> None:
        key = (location.space, location.array, location.cta)
        cells = self._bytes.setdefault(key, {})
        for i in range(size):
            byte = None if value is None else (value >> (8 * i)) & 255
            cells[location.offset + i] = (byte, number)


@dataclass(frozen=True, slots=True)
class Stored:
    """What one store put into local memory: registers spilled there keep their provenance."""

    offset: int
    size: int
    bits: int
    node: int
    unknown: bool


class LocalMemory:
    """Thread-private memory (PTX ISA §5.1.5): no other thread sees it, so it has no events."""

    def __init__(self) -> None:
        self._bytes: dict[tuple[int, int], Stored] = {}

    def store(self, lane: int, stored: Stored) -> None:
        for byte in range(stored.offset, stored.offset + stored.size):
            self._bytes[lane, byte] = stored

    def load(self, lane: int, offset: int, size: int) -> Stored | tuple[int, ...]:
        """What is there, if one store wrote all of it and no more; else the nodes of the parts."""
        found = [self._bytes.get((lane, byte)) for byte in range(offset, offset + size)]
        first = found[0]
        whole = all(part is first for part in found)
        if first is not None and whole and (first.offset, first.size) == (offset, size):
            return first
        if all(part is not None and not part.node for part in found):
            bits = 0
            for i, part in enumerate(found):
                assert part is not None
                byte = part.bits >> (8 * (offset + i - part.offset)) & 255
                bits |= byte << (8 * i)
            return Stored(offset, size, bits, 0, False)
        return tuple(dict.fromkeys(part.node for part in found if part is not None and part.node))
