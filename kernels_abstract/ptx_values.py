"""Lane values: bits where they are known, and for every lane where they came from.

All threads of the launch are executed together, so a register is an array with one entry a
thread. A value that depends on loaded data carries a provenance *node*: an interned tree of
operations over loads. Threads that compute the same function of the same memory locations hold
the same node; that is how stores of equal values are recognised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.uint64]
Nodes = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """One register of all threads. Arrays are never changed in place.

    `node` is 0 where nothing loaded was involved; None: 0 everywhere. `unknown` marks the lanes
    whose bits are not known; None: all are known. An unknown lane has a node.
    """

    bits: Bits
    node: Nodes | None = None
    unknown: Mask | None = None

    def nodes(self) -> Nodes:
        return np.zeros(len(self.bits), np.int64) if self.node is None else self.node

    def unknowns(self) -> Mask:
        return np.zeros(len(self.bits), np.bool_) if self.unknown is None else self.unknown

    def merged_into(self, old: Value, mask: Mask) -> Value:
        """This value in the lanes of `mask`, the old one elsewhere."""
        return choose(mask, self, old)


def choose(mask: Mask, then: Value, other: Value) -> Value:
    """`then` in the lanes of `mask`, `other` elsewhere."""
    bits = np.where(mask, then.bits, other.bits)
    node = unknown = None
    if then.node is not None or other.node is not None:
        node = np.where(mask, then.nodes(), other.nodes())
    if then.unknown is not None or other.unknown is not None:
        unknown = np.where(mask, then.unknowns(), other.unknowns())
    return Value(bits, node, unknown)


class Provenance:
    """Interned computations. A node is a small integer; equal trees have equal nodes.

    A *leaf* is a value that enters from outside: a location as it was after a given store, a
    kernel parameter without a value, the result of an atomic. An argument of an operation is a
    node, or a constant written as -1 - bits.
    """

    def __init__(self) -> None:
        self._ids: dict[tuple[object, ...], int] = {}
        self._operations: list[str] = [""]
        self._arguments: list[tuple[int, ...]] = [()]
        self._leaves: dict[int, tuple[int, ...]] = {0: ()}

    def operation(self, name: str, arguments: tuple[int, ...]) -> int:
        key = (name, arguments)
        node = self._ids.get(key)
        if node is None:
            node = self._add(key, name, arguments)
        return node

    def leaf(self, kind: str, *identity: object) -> int:
        key = (kind, "leaf", *identity)
        node = self._ids.get(key)
        if node is None:
            node = self._add(key, kind, ())
            self._leaves[node] = (node,)
        return node

    def _add(self, key: tuple[object, ...], name: str, arguments: tuple[int, ...]) -> int:
        node = len(self._operations)
        self._ids[key] = node
        self._operations.append(name)
        self._arguments.append(arguments)
        return node

    def name(self, node: int) -> str:
        """The root operation; with the node's number it names the whole computation."""
        return self._operations[node]

    def leaves(self, node: int) -> tuple[int, ...]:
        """What the computation depends on, in the order in which it first entered."""
        found = self._leaves.get(node)
        if found is None:
            found = self._leaves[node] = tuple(sorted(self._below(node)))
        return found

    def _below(self, node: int) -> set[int]:
        leaves: set[int] = set()
        seen: set[int] = set()
        stack = [node]
        while stack:
            at = stack.pop()
            known = self._leaves.get(at)
            if known is not None:
                leaves.update(known)
                continue
            fresh = [a for a in self._arguments[at] if a > 0 and a not in seen]
            seen.update(fresh)
            stack.extend(fresh)
        return leaves

    def __len__(self) -> int:
        return len(self._operations)

    def combine(self, name: str, values: Sequence[Value], lanes: Mask) -> Nodes:
        """The node of `name(values)` for each lane of `lanes`; 0 in the others."""
        result = np.zeros(len(lanes), np.int64)
        chosen = np.flatnonzero(lanes)
        columns = [_arguments_of(value, chosen) for value in values]
        made: dict[tuple[int, ...], int] = {}
        found = []
        for arguments in zip(*columns, strict=True) if columns else [()] * len(chosen):
            node = made.get(arguments)
            if node is None:
                node = made[arguments] = self.operation(name, arguments)
            found.append(node)
        result[chosen] = found
        return result


def _arguments_of(value: Value, chosen: NDArray[np.intp]) -> list[int]:
    bits: list[int] = value.bits[chosen].tolist()
    if value.node is None:
        return [-1 - b for b in bits]
    nodes: list[int] = value.node[chosen].tolist()
    return [node if node else -1 - b for node, b in zip(nodes, bits, strict=True)]


# --- arithmetic on bits --------------------------------------------------------------------------


def masked(bits: Bits, width: int) -> Bits:
    """The low `width` bits."""
    return bits if width >= 64 else bits & np.uint64((1 << width) - 1)


def signed(bits: Bits, width: int) -> NDArray[np.int64]:
    """Two's complement of `width` bits."""
    shift = np.int64(64 - width)
    return (bits.view(np.int64) << shift) >> shift


def unsigned(numbers: NDArray[np.int64], width: int) -> Bits:
    return masked(np.asarray(numbers, np.int64).view(np.uint64), width)


def floats(bits: Bits, width: int) -> NDArray[np.float64]:
    """f16, f32 or f64 bits as numbers; each of them is exact in f64."""
    if width == 64:
        return bits.view(np.float64)
    kind, carrier = (np.float32, np.uint32) if width == 32 else (np.float16, np.uint16)
    return bits.astype(carrier).view(kind).astype(np.float64)


def lanewise(function: Callable[..., int], *operands: Bits) -> Bits:
    """Apply a function on Python integers lane by lane: for rare operations."""
    rows = zip(*(operand.tolist() for operand in operands), strict=True)
    return np.array([function(*row) & (2**64 - 1) for row in rows], np.uint64)
