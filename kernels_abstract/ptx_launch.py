"""The launch of a kernel: its shape, what its parameters are, and the special registers."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .ptx_values import Bits, masked

WARP = 32

Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Launch:
    """Launch shape, and the values of parameters and of small buffers."""

    grid: Shape
    block: Shape
    cluster: Shape = (1, 1, 1)
    parameters: dict[str, int | float] = field(default_factory=dict)
    pointers: dict[str, str] = field(default_factory=dict)
    """Pointer parameters and the buffers they point to."""

    contents: dict[str, list[int]] = field(default_factory=dict)
    """What is in a buffer, element by element of the size it is read with."""

    @property
    def threads(self) -> int:
        return size_of(self.block)

    @property
    def ctas(self) -> int:
        return size_of(self.cluster)

    @property
    def padded(self) -> int:
        """The threads of a block, rounded up to whole warps."""
        return -(-self.threads // WARP) * WARP


def size_of(shape: Shape) -> int:
    return shape[0] * shape[1] * shape[2]


def special_register(name: str, launch: Launch) -> Bits | None:
    """A special register (PTX ISA §10) in all lanes, for the first cluster of the grid.

    None: it is not in the model.
    """
    stem, _, axis = name.lstrip("%").partition(".")
    number = "xyz".index(axis or "x")
    lanes = np.arange(launch.padded * launch.ctas)
    found = _shapes(stem, number, launch)
    if found is not None:
        return np.full(len(lanes), found, np.uint64)
    thread, cta = lanes % launch.padded, lanes // launch.padded
    if stem in ("tid", "ctaid", "cluster_ctaid"):
        linear, shape = (thread, launch.block) if stem == "tid" else (cta, launch.cluster)
        below = (1, shape[0], shape[0] * shape[1])[number]
        return (linear // below % shape[number]).astype(np.uint64)
    if stem == "warpid":
        return (thread // WARP).astype(np.uint64)
    if stem == "cluster_ctarank":
        return cta.astype(np.uint64)
    return _of_lane(name, (lanes % WARP).astype(np.uint64))


def _shapes(stem: str, number: int, launch: Launch) -> int | None:
    """Special registers that are the same in all threads."""
    clusters = [g // c for g, c in zip(launch.grid, launch.cluster, strict=True)]
    values = {
        "ntid": launch.block[number],
        "nctaid": launch.grid[number],
        "cluster_nctaid": launch.cluster[number],
        "nclusterid": clusters[number],
        "clusterid": 0,
        "WARP_SZ": WARP,
        "nwarpid": launch.padded // WARP,
        "cluster_nctarank": launch.ctas,
        "is_explicit_cluster": int(launch.ctas > 1),
    }
    return values.get(stem)


def _of_lane(name: str, lane: Bits) -> Bits | None:
    one = np.uint64(1)
    values = {
        "%laneid": lane,
        "%lanemask_eq": one << lane,
        "%lanemask_lt": (one << lane) - one,
        "%lanemask_le": (one << (lane + one)) - one,
        "%lanemask_ge": masked(~((one << lane) - one), WARP),
        "%lanemask_gt": masked(~((one << (lane + one)) - one), WARP),
    }
    return values.get(name)
