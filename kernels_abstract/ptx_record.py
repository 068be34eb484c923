"""The record of a run: the steps of every thread, and the registers that carry loaded values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..model.instructions import Compute, Instruction, Use
from ..model.program import Region, Source, Step
from .ptx_launch import WARP
from .ptx_memory import Location, region_of
from .ptx_syntax import PtxInstruction
from .ptx_values import Mask, Provenance, Value


class Record:
    """Steps by lane. Lanes of a warp that emit in the same instruction share a position."""

    def __init__(self, provenance: Provenance, lanes: int) -> None:
        self.provenance = provenance
        self.steps: list[list[Step]] = [[] for _ in range(lanes)]
        self.length = 0
        self.regions: dict[Region, None] = {}
        """All regions that were touched, in order."""

        self._clock = np.zeros(lanes // WARP, np.int64)
        self._warps: NDArray[np.int64] = np.arange(0)
        self._source = Source()
        self._sources: dict[int, Source] = {}
        self._places: dict[tuple[Location, int, int], Region] = {}
        self._used: list[set[int]] = [set() for _ in range(lanes)]
        self._held: list[dict[int, str]] = [{} for _ in range(lanes)]
        self._loads: list[dict[tuple[int, int], int]] = [{} for _ in range(lanes)]
        self._leaves: dict[tuple[int, int, int], tuple[int, str]] = {}
        """By region (the objects are kept, so their ids are theirs), version and count."""

    def begin(self, ins: PtxInstruction, warps: NDArray[np.int64]) -> None:
        """These warps execute `ins` next."""
        self._warps = warps
        self.next_position()
        found = self._sources.get(ins.index)
        if found is None:
            found = self._sources[ins.index] = Source(ins.line, ins.column, ins.text)
        self._source = found

    def next_position(self) -> None:
        self._clock[self._warps] += 1

    def emit(self, lane: int, instruction: Instruction) -> Step:
        step = Step(instruction, self._source, position=int(self._clock[lane // WARP]))
        self.steps[lane].append(step)
        self.length += 1
        return step

    def region(self, location: Location, size: int, element: int) -> Region:
        key = (location, size, element)
        found = self._places.get(key)
        if found is None:
            found = self._places[key] = region_of(location, size, element)
            self.regions[found] = None
        return found

    # --- registers -------------------------------------------------------------------------------

    def loaded(self, lane: int, region: Region, version: int) -> tuple[int, str]:
        """A new load by this thread: the node of its value, and the register that gets it.

        The node stands for the location, the store whose value it is, and how many times the
        thread had loaded that before: threads that load the same get the same node.
        """
        counts = self._loads[lane]
        nth = counts[id(region), version] = counts.get((id(region), version), -1) + 1
        key = (id(region), version, nth)
        found = self._leaves.get(key)
        if found is None:
            kind = f"{region.space.value} {region.label}"
            node = self.provenance.leaf(kind, region.cta, region.columns, version, nth)
            found = self._leaves[key] = (node, f"{region.label}#{node}")
        node, name = found
        self._held[lane][node] = name
        return found

    def use(self, value: Value, lanes: Mask, kind: str) -> None:
        """The threads need this value to go on (a branch, an address, a shuffle).

        The first use of a value is recorded; the later ones would say nothing new.
        """
        if value.node is None:
            return
        emitted = False
        for lane in np.flatnonzero(lanes & (value.node > 0)).tolist():
            node = int(value.node[lane])
            names = () if node in self._used[lane] else self._inputs(lane, node)
            self._used[lane].add(node)
            if names:
                self.emit(lane, Use(names, kind))
                emitted = True
        if emitted:
            self.next_position()

    def registers_of(self, values: list[Value], lanes: list[int]) -> list[tuple[str, ...]]:
        """For each lane the registers that hold `values`; () if all of them are constants."""
        touched = [np.zeros(0) if v.node is None else v.node for v in values]
        stored = [lane for lane in lanes if any(len(n) and n[lane] for n in touched)]
        names: dict[int, list[str]] = {lane: [] for lane in lanes}
        for value in values if stored else ():
            for lane in stored:
                names[lane].append(self._register(lane, value))
            self.next_position()
        return [tuple(found) for found in names.values()]

    def _register(self, lane: int, value: Value) -> str:
        """The register in which this thread holds a value, computing it if need be."""
        node = 0 if value.node is None else int(value.node[lane])
        key = node or -1 - int(value.bits[lane])
        held = self._held[lane]
        name = held.get(key)
        if name is None:
            constant = f"constant {int(value.bits[lane]):#x}"
            name = held[key] = f"{self.provenance.name(node)}#{node}" if node else constant
            self.emit(lane, Compute(name, self._inputs(lane, node), name))
        return name

    def _inputs(self, lane: int, node: int) -> tuple[str, ...]:
        """The registers of this thread that a value depends on."""
        held = self._held[lane]
        return tuple(held[leaf] for leaf in self.provenance.leaves(node) if leaf in held)
