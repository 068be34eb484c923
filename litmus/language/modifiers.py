"""What may stand after an opcode's name: semantics and scope (PTX ISA §8.4-5), and other words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...model.instructions import Scope, Sem
from ...model.suggest import suggestion

SCOPES = {"cta": Scope.CTA, "cluster": Scope.CLUSTER, "gpu": Scope.GPU, "sys": Scope.SYS}
ALL_SCOPES = tuple(SCOPES)
SEMANTICS = {
    "weak": Sem.WEAK, "volatile": Sem.RELAXED, "mmio": Sem.RELAXED, "relaxed": Sem.RELAXED,
    "acquire": Sem.ACQUIRE, "release": Sem.RELEASE, "acq_rel": Sem.ACQ_REL, "sc": Sem.SC,
}  # fmt: skip
WHY_NOT = {
    "acquire": "what does not read cannot acquire",
    "release": "what does not write cannot release",
    "sc": "only a fence is sequentially consistent",
    "acq_rel": "only what reads and writes, or a fence, is both",
    "weak": "it is a strong operation always",
}


class Illegal(Exception):
    """An opcode that PTX does not have: what is wrong, and what would be legal."""


@dataclass(frozen=True)
class Order:
    """The semantics and scopes that an instruction may carry, and those it has by default.

    Without a default `scope`, semantics other than weak must name one.
    """

    semantics: tuple[str, ...]
    default: Sem = Sem.WEAK
    scope: Scope | None = None
    scopes: tuple[str, ...] = ALL_SCOPES
    scope_alone: bool = False
    """May a scope stand without semantics?"""
    required: bool = False
    """Must there be a scope at all? (fences)"""

    def resolve(self, opcode: str, words: tuple[str, ...]) -> tuple[Sem, Scope]:
        """The semantics and scope among the modifiers."""
        semantics = [word for word in words if word in SEMANTICS]
        scopes = [word for word in words if word in SCOPES]
        if len(scopes) > 1:
            raise Illegal(f"`{opcode}` has two scopes, .{scopes[0]} and .{scopes[1]}; keep one")
        for word in semantics:
            if word not in self.semantics:
                raise Illegal(self._refusal(opcode, word))
        scope = scopes[0] if scopes else None
        if scope is not None and scope not in self.scopes:
            raise Illegal(f"`.{scope}` is no scope of `{opcode}`; legal: {dotted(self.scopes)}")
        return self._paired(opcode, semantics, scope)

    def _paired(self, opcode: str, semantics: list[str], scope: str | None) -> tuple[Sem, Scope]:
        if "mmio" in semantics:
            if sorted(semantics) != ["mmio", "relaxed"] or scope != "sys":
                raise Illegal(f"`{opcode}`: .mmio is written `.mmio.relaxed.sys`")
            return Sem.RELAXED, Scope.SYS
        if len(semantics) > 1:
            first, second = semantics[:2]
            raise Illegal(f"`{opcode}` is both .{first} and .{second}; keep one")
        if not semantics:
            return self._without_semantics(opcode, scope)
        word = semantics[0]
        if word in ("weak", "volatile"):
            if scope is not None:
                raise Illegal(f"`{opcode}`: .{word} takes no scope; leave out .{scope}")
            return SEMANTICS[word], Scope.SYS if word == "volatile" else Scope.CTA
        return SEMANTICS[word], self._scope(opcode, word, scope)

    def _scope(self, opcode: str, word: str, scope: str | None) -> Scope:
        if scope is not None:
            return SCOPES[scope]
        if self.scope is None:
            raise Illegal(f"`{opcode}` needs a scope after .{word}: {dotted(self.scopes)}")
        return self.scope

    def _without_semantics(self, opcode: str, scope: str | None) -> tuple[Sem, Scope]:
        if scope is None:
            if self.required:
                raise Illegal(f"`{opcode}` needs a scope: {dotted(self.scopes)}")
            return self.default, self.scope or Scope.CTA
        if not self.scope_alone:
            strong = [word for word in self.semantics if word not in ("weak", "volatile", "mmio")]
            raise Illegal(
                f"`{opcode}` has a scope but no semantics; legal before it: {dotted(strong)}"
            )
        return self.default, SCOPES[scope]

    def _refusal(self, opcode: str, word: str) -> str:
        legal = f"legal: {dotted(self.semantics)}" if self.semantics else "it has no semantics"
        why = f": {WHY_NOT[word]}" if word in WHY_NOT else ""
        return f"`{opcode}` cannot be .{word}{why}; {legal}"


NO_ORDER = Order((), scopes=())


def dotted(words: Iterable[str]) -> str:
    return " ".join(f".{word}" for word in words)


def unknown_modifier(opcode: str, word: str, legal: Iterable[str]) -> Illegal:
    """A word that means nothing here."""
    legal = tuple(legal)
    if not word:
        return Illegal(f"`{opcode}`: a modifier is missing after a dot")
    known = f"; legal: {dotted(legal)}" if legal else "; it takes no modifiers"
    return Illegal(f"`{opcode}`: unknown modifier `.{word}`{suggestion(word, legal) or known}")
