"""The one sentence that says what is wrong, made from a finding's data."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..model.verdict import Finding, Place, Result

THREAD = "thread"
"""What the agents of a kernel without tasks are called, each of them one thread."""

_READERS = {
    "strict": "by a strict reading",
    "ptx": "by the PTX text",
    "hardware": "on hardware",
}


def sentence(finding: Finding) -> str:
    """What can happen, who does it, to which data, in which tiles; then the engine's reason."""
    key = finding.hazard if finding.kind == "race" else finding.kind
    text = _SENTENCES.get(key, _any_finding)(finding)
    if finding.other_location:
        text += f"; {finding.other_location} overlaps {finding.location}"
    return f"{text} ({finding.reason})" if finding.reason else text


def place_name(place: Place) -> str:
    """Who executes it, as precisely as is known."""
    tile = "" if place.tile is None else f", tile {place.tile}"
    thread = "" if place.thread is None else f", thread {place.thread}"
    return f"{place.agent}, CTA {place.cta}, warp {place.warp}{thread}{tile}"


def headline(results: Sequence[Result]) -> str:
    """The verdicts of all readings in one sentence, equal ones together."""
    readers: dict[str, list[str]] = {}
    for result in results:
        reader = _READERS.get(result.reading, f"by the reading {result.reading}")
        readers.setdefault(result.verdict, []).append(reader)
    if len(readers) == 1 and len(results) > 1:
        return f"{results[0].verdict} in every reading"
    return ", ".join(f"{verdict} {' and '.join(who)}" for verdict, who in readers.items())


_BIRTHS = ("mbarrier.init", "tcgen05.alloc")


# --- one function a kind --------------------------------------------------------------------------


def _overwrite(finding: Finding) -> str:
    reader, writer = _agents(finding)
    return (
        f"{writer} may {_verb(finding)} {finding.location}{_for_tile(finding.second)} while "
        f"{reader}'s {finding.first.instruction}{_of_tile(finding.first)} still reads it"
    )


def _early_read(finding: Finding) -> str:
    writer, reader = _agents(finding)
    return (
        f"{reader}'s {_second(finding).instruction}{_of_tile(finding.second)} may read "
        f"{finding.location} before {writer}'s {finding.first.instruction}"
        f"{_of_tile(finding.first)} has written it"
    )


def _two_writes(finding: Finding) -> str:
    first, second = _agents(finding)
    return (
        f"{first}'s {finding.first.instruction}{_of_tile(finding.first)} and {second}'s "
        f"{_second(finding).instruction}{_of_tile(finding.second)} may write {finding.location} "
        "in either order"
    )


def _use_after_free(finding: Finding) -> str:
    user, owner = _agents(finding)
    return (
        f"{owner}'s {_second(finding).instruction} may end the life of {finding.location} while "
        f"{user}'s {finding.first.instruction}{_of_tile(finding.first)} still uses it"
    )


def _proxy(finding: Finding) -> str:
    first, second = _agents(finding)
    return (
        f"{second}'s {_second(finding).instruction}{_of_tile(finding.second)} follows {first}'s "
        f"{finding.first.instruction}{_of_tile(finding.first)} at {finding.location}, "
        "but through another proxy, and no proxy fence stands between them"
    )


def _deadlock(finding: Finding) -> str:
    what, where = finding.first.instruction, finding.location
    place = where if where.startswith(what) else f"{what} {where}"
    return f"{finding.first.agent} waits for ever at {place}{_of_tile(finding.first)}"


def _lap(finding: Finding) -> str:
    if "nobody" in finding.reason:
        return f"{finding.first.agent} arrives at {finding.location} too soon"
    return (
        f"{finding.first.agent}'s {finding.first.instruction} {finding.location}"
        f"{_of_tile(finding.first)} may miss its phase: the barrier can be a lap ahead"
    )


def _count(finding: Finding) -> str:
    return (
        f"{finding.location} gets a wrong number of arrivals or bytes: {finding.first.agent}'s "
        f"{finding.first.instruction}{_of_tile(finding.first)}"
    )


def _lifetime(finding: Finding) -> str:
    if finding.second is None:
        return (
            f"{finding.first.agent}'s {finding.first.instruction}{_of_tile(finding.first)} uses "
            f"{finding.location} outside its lifetime"
        )
    if finding.first.instruction not in _BIRTHS:
        return _use_after_free(finding)
    owner, user = _agents(finding)
    return (
        f"{user}'s {finding.second.instruction}{_of_tile(finding.second)} may use "
        f"{finding.location} before {owner}'s {finding.first.instruction} begins its life"
    )


def _divergence(finding: Finding) -> str:
    return (
        f"only part of a warp of {finding.first.agent} executes {finding.first.instruction}"
        f"{_of_tile(finding.first)}, which needs the whole warp"
    )


def _any_finding(finding: Finding) -> str:
    what = f"{finding.kind} at {finding.location}: {finding.first.agent}'s "
    return what + finding.first.instruction + _of_tile(finding.first)


_SENTENCES: dict[str, Callable[[Finding], str]] = {
    "overwrite-before-last-read": _overwrite,
    "read-before-write": _early_read,
    "write-write": _two_writes,
    "use-after-free": _lifetime,
    "proxy": _proxy,
    "deadlock": _deadlock,
    "lap": _lap,
    "count": _count,
    "lifetime": _lifetime,
    "divergence": _divergence,
}


# --- names ----------------------------------------------------------------------------------------


def _second(finding: Finding) -> Place:
    return finding.second or finding.first


def _agents(finding: Finding) -> tuple[str, str]:
    """The two agents' names, with as much of CTA and warp as it takes to tell them apart."""
    first, second = finding.first, _second(finding)
    if first.cta != second.cta:
        return f"CTA {first.cta}'s {first.agent}", f"CTA {second.cta}'s {second.agent}"
    if first.agent != second.agent:
        return first.agent, second.agent
    if first.warp != second.warp:
        return _of_warp(first), _of_warp(second)
    if first.agent == THREAD:
        return _of_thread(first, "a thread"), _of_thread(second, "another thread")
    if first.thread is None:
        return first.agent, f"{second.agent} itself"
    return first.agent, f"another lane of {second.agent}"


def _of_thread(place: Place, unknown: str) -> str:
    return unknown if place.thread is None else f"thread {place.thread}"


def _of_warp(place: Place) -> str:
    name = "a thread of" if place.agent == THREAD else place.agent
    return f"{name} warp {place.warp}"


def _verb(finding: Finding) -> str:
    """A ring is refilled by a later tile; anything else is overwritten."""
    first, second = finding.first.tile, _second(finding).tile
    return "refill" if first is not None and second is not None and first < second else "overwrite"


def _of_tile(place: Place | None) -> str:
    return "" if place is None or place.tile is None else f" of tile {place.tile}"


def _for_tile(place: Place | None) -> str:
    return "" if place is None or place.tile is None else f" for tile {place.tile}"
