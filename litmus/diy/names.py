"""Names of tests by herd's scheme: the classic shape, then what stands on each thread."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TypeVar

from .edges import Edge, Mark

SHAPES: dict[str, str] = {
    "MP": "PodWW Rfe PodRR Fre",
    "SB": "PodWR Fre PodWR Fre",
    "LB": "PodRW Rfe PodRW Rfe",
    "S": "PodWW Rfe PodRW Coe",
    "R": "PodWW Coe PodWR Fre",
    "2+2W": "PodWW Coe PodWW Coe",
    "WRC": "Rfe PodRW Rfe PodRR Fre",
    "RWC": "Rfe PodRR Fre PodWR Fre",
    "WWC": "Rfe PodRW Rfe PodRW Coe",
    "WRW+WR": "Rfe PodRW Coe PodWR Fre",
    "WRR+2W": "Rfe PodRR Fre PodWW Coe",
    "WRW+2W": "Rfe PodRW Coe PodWW Coe",
    "ISA2": "PodWW Rfe PodRW Rfe PodRR Fre",
    "W+RWC": "PodWW Rfe PodRR Fre PodWR Fre",
    "Z6.0": "PodWW Rfe PodRW Coe PodWR Fre",
    "Z6.1": "PodWW Coe PodWW Rfe PodRW Coe",
    "Z6.2": "PodWW Rfe PodRW Rfe PodRW Coe",
    "Z6.3": "PodWW Coe PodWW Rfe PodRR Fre",
    "Z6.4": "PodWW Coe PodWR Fre PodWR Fre",
    "Z6.5": "PodWW Coe PodWW Coe PodWR Fre",
    "IRIW": "Rfe PodRR Fre Rfe PodRR Fre",
    "IRRWIW": "Rfe PodRR Fre Rfe PodRW Coe",
    "IRWIW": "Rfe PodRW Coe Rfe PodRW Coe",
    "CoRR": "Rfe PosRR Fre",
    "CoRW2": "Rfe PosRW Coe",
    "CoWR": "PosWR Fre Coe",
    "CoRR2": "Rfe PosRR Fre Rfe PosRR Fre",
    **{f"{n}.SB": " ".join(["PodWR Fre"] * n) for n in range(3, 9)},
    **{f"{n}.LB": " ".join(["PodRW Rfe"] * n) for n in range(3, 9)},
    **{f"{n}.2W": " ".join(["PodWW Coe"] * n) for n in range(3, 9)},
}
"""Classic shapes, by the catalogue of herd (diy.inria.fr); the first event is that of P0."""

T = TypeVar("T")
_BY_CYCLE = {cycle: name for name, cycle in SHAPES.items()}


def rotated(edges: Sequence[Edge], marks: Sequence[Mark]) -> tuple[list[Edge], list[Mark], str]:
    """The cycle from where a thread starts by communication, and its classic name.

    A classic one starts as in the catalogue; any other from its first edge, if it can. A hand-off
    cannot close the list: its thread would have to wait before its first event.
    """
    ends = [edge.external and bool(edge.relation) for edge in edges]
    starts = [index for index in range(len(edges)) if ends[index - 1]]
    named = [(index, shape_name(_turn(edges, index))) for index in starts]
    start, name = next((found for found in named if found[1]), (starts[0], ""))
    return _turn(edges, start), _turn(marks, start), name


def _turn(items: Sequence[T], start: int) -> list[T]:
    return [*items[start:], *items[:start]]


def full_name(edges: Sequence[Edge], marks: Sequence[Mark], shape: str) -> str:
    """`MP+rel.gpu+acq.gpu`; the list of edges when the shape has no name."""
    if not shape:
        return "+".join(words(edges, marks))
    stands = [word for thread in threads(edges) if (word := _stands(thread, edges, marks))]
    plain = all(word in ("po", "pos") for word in stands)
    return shape if plain else "+".join([shape, *stands])


def words(edges: Sequence[Edge], marks: Sequence[Mark]) -> list[str]:
    """The cycle as the command line takes it."""
    found: list[str] = []
    for edge, mark in zip(edges, marks, strict=True):
        found += [edge.text] if mark.text == "Weak" else [mark.text, edge.text]
    return found


def threads(edges: Sequence[Edge]) -> list[range]:
    """The events of each thread."""
    found, first = [], 0
    for index, edge in enumerate(edges):
        if edge.external:
            found.append(range(first, index + 1))
            first = index + 1
    return found


def shape_name(edges: Sequence[Edge]) -> str:
    """The classic name of a cycle, by where each thread starts and ends; empty if it has none."""
    locations = sum(edge.moves for edge in edges)
    parts: list[str] = []
    for thread in threads(edges):
        last = edges[thread[-1]]
        if not last.relation:
            return ""
        inner = [edges[index] for index in thread[:-1]]
        if inner:
            away = locations and sum(edge.moves for edge in inner) % locations
            moves = "d" if away else "s"
            parts.append(f"Po{moves}{inner[0].source}{inner[-1].target}")
        parts.append(last.text)
    return _BY_CYCLE.get(" ".join(parts), "")


def _stands(thread: range, edges: Sequence[Edge], marks: Sequence[Mark]) -> str:
    notes = _notes([marks[index] for index in thread])
    between = [edges[index].word for index in thread[:-1]]
    if notes:
        between = [word for word in between if word != "po"]
    return "-".join([*between, *notes])


def _notes(marks: Sequence[Mark]) -> list[str]:
    """The annotations: once when all are equal, and only a release at the end or an acquire at
    the start when all others are weak."""
    found = [mark.text.lower() for mark in marks]
    if len(list(groupby(found))) == 1:
        return [] if found[0] == "weak" else found[:1]
    if marks[-1].sem == "release" and set(found[:-1]) == {"weak"}:
        return found[-1:]
    if marks[0].sem == "acquire" and set(found[1:]) == {"weak"}:
        return found[:1]
    return found
