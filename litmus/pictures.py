"""An execution as a picture: text for Graphviz (`dot -Tsvg`).

One digraph an execution: a cluster for each thread, events lettered as in the report, edges in
these colours, and the edges of a cycle that an axiom forbids in bold:

    po     black       program order
    rf     red         a read and the write it reads from
    co     blue        coherence: writes of one location
    fr     orange      a read, and a write that comes after the one it reads from
    sync   purple      synchronization: release to acquire, barriers
    async  dark green  an asynchronous operation: issue, accesses, completion
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..model.axiomatic.code import Test
from ..model.axiomatic.outcome import EdgeView, EventView, Outcome, Picture
from .herd import reason

COLOURS = {
    "po": "black",
    "rf": "red",
    "co": "blue",
    "fr": "#ffa040",
    "sync": "purple",
    "async": "darkgreen",
}
_OTHER = "gray40"
_ENTITY = re.compile(r"&(?=[#\w]+;)")
_BOLD = {"style": "bold", "penwidth": "3"}


def pictures(outcome: Outcome) -> str:
    """The digraphs of an outcome: the forbidden candidate, the witness; a comment when none."""
    name = f"{outcome.test.name} (reading {outcome.reading}, ISA {outcome.isa})"
    drawn = ""
    if outcome.forbidden is not None:
        why = f"forbidden by {reason(outcome.forbidden)}"
        drawn += digraph(outcome.forbidden, outcome.test, f"{name}: {why}")
    if outcome.witness is not None:
        drawn += digraph(outcome.witness, outcome.test, f"{name}: allowed")
    return drawn or f"// {' '.join(name.split())}: no execution to draw\n"


def digraph(picture: Picture, test: Test, title: str) -> str:
    """One execution, under its title and its final state."""
    state = " ".join(f"{name}={value};" for name, value in picture.state)
    lines = (
        f"digraph {quoted(title)} {{",
        f"  graph [label={quoted(_lines(title, state))}, labelloc=t, newrank=true, nodesep=0.9]",
        "  node [shape=none, height=0, width=0, margin=0.05]",
        *_side_by_side(picture),
        *_events(picture, test),
        *_edges(picture),
        "}",
    )
    return "".join(f"{line}\n" for line in lines)


def quoted(text: str) -> str:
    """A string of dot in which every character, also `<`, stands for itself.

    Graphviz replaces escapes such as `\\N` and entities such as `&lt;` in labels, so backslashes
    and the ampersands of entities are escaped; a line break is one in the picture too; other
    control characters have no place in a picture.
    """
    plain = _ENTITY.sub("&amp;", text).replace("\\", "\\\\").replace('"', '\\"')
    lines = ("".join(c for c in line if c.isprintable()) for line in plain.splitlines())
    return '"' + "\\n".join(lines) + '"'


def _lines(*texts: str) -> str:
    return "\n".join(text for text in texts if text)


# --- events ---------------------------------------------------------------------------------------


def _events(picture: Picture, test: Test) -> Iterator[str]:
    """Initial values stand alone, the events of a thread in its cluster, each before the next."""
    for index in sorted({event.thread for event in picture.events}):
        events = [(n, event) for n, event in enumerate(picture.events) if event.thread == index]
        nodes = [f"e{number} [label={quoted(_label(event))}]" for number, event in events]
        if index < 0:
            yield from (f"  {node}" for node in nodes)
            continue
        yield f"  subgraph cluster_{index} {{"
        yield f"    label={quoted(test.threads[index].name)}; color=gray"
        yield from (f"    {node}" for node in nodes)
        yield "  }"


def _side_by_side(picture: Picture) -> Iterator[str]:
    """Something unseen that joins the threads makes Graphviz put them in order, mostly."""
    firsts: dict[int, str] = {}
    for number, event in sorted(enumerate(picture.events), key=lambda each: each[1].thread):
        if event.thread >= 0:
            firsts.setdefault(event.thread, f"e{number}")
    if len(firsts) > 1:
        yield f"  {{ rank=same; {' -> '.join(firsts.values())} [style=invis] }}"


def _label(event: EventView) -> str:
    where = f"line {event.line}: " if event.line else ""
    return _lines(f"{event.letter}: {event.label}", f"{where}{event.text}" if event.text else "")


# --- edges ----------------------------------------------------------------------------------------


def _edges(picture: Picture) -> Iterator[str]:
    """All edges, each once; those of the cycle last, in bold."""
    nodes = {event.letter: f"e{number}" for number, event in enumerate(picture.events)}
    cycle = dict.fromkeys(picture.cycle)
    plain = [edge for edge in dict.fromkeys(picture.edges) if edge not in cycle]
    for edge in (*plain, *cycle):
        looks = _looks(edge) | (_BOLD if edge in cycle else {})
        attributes = ", ".join(f"{name}={quoted(value)}" for name, value in looks.items())
        yield f"  {nodes[edge.source]} -> {nodes[edge.target]} [{attributes}]"


def _looks(edge: EdgeView) -> dict[str, str]:
    colour = COLOURS.get(edge.kind, _OTHER)
    label = edge.kind if edge.rule in ("", edge.kind) else f"{edge.kind}: {edge.rule}"
    looks = {"label": label, "color": colour, "fontcolor": colour}
    return looks if edge.kind == "po" else {**looks, "constraint": "false"}
