"""Values of the solver: Python integers where they are known, z3 terms where they are not.

Sums, comparisons and choices are z3's own. What is not linear (products, quotients, bits) is an
uninterpreted function; each model is checked, and a function that it got wrong learns the right
value for those arguments (`corrections`). So the answers are exact, and z3 stays in the fragment
that it decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import z3

from .code import Act, Apply, Arithmetic, Compare, Condition, Quantity, Term, Test

Value = Any
"""A Python integer, or a z3 term of sort Int."""
Formula = Any
"""A Python Boolean, or a z3 term of sort Bool."""

_CONTEXT = z3.main_ctx()
_OPAQUE = {
    name: z3.Function(name, z3.IntSort(), z3.IntSort(), z3.IntSort())
    for name in ("mul", "div", "and", "or", "xor")
}


# --- formulas -------------------------------------------------------------------------------------


def both(*parts: Formula) -> Formula:
    """The conjunction, decided if the parts decide it."""
    return conjunction(parts)


def conjunction(parts: Iterable[Formula]) -> Formula:
    open_parts = []
    for part in parts:
        if part is False:
            return False
        if part is not True:
            open_parts.append(part)
    return _joined(z3.Z3_mk_and, open_parts) if open_parts else True


def either(*parts: Formula) -> Formula:
    """The disjunction, decided if the parts decide it."""
    return disjunction(parts)


def disjunction(parts: Iterable[Formula]) -> Formula:
    open_parts = []
    for part in parts:
        if part is True:
            return True
        if part is not False:
            open_parts.append(part)
    return _joined(z3.Z3_mk_or, open_parts) if open_parts else False


def _joined(make: Callable[..., Any], parts: list[Any]) -> Formula:
    """z3.And or z3.Or without its checks of sorts, which take most of the time of a small test."""
    if len(parts) == 1:
        return parts[0]
    array = (z3.Ast * len(parts))(*(part.ast for part in parts))
    return z3.BoolRef(make(_CONTEXT.ref(), len(parts), array), _CONTEXT)


def negation(part: Formula) -> Formula:
    if isinstance(part, bool):
        return not part
    return z3.BoolRef(z3.Z3_mk_not(_CONTEXT.ref(), part.ast), _CONTEXT)


def implies(condition: Formula, then: Formula) -> Formula:
    return disjunction((negation(condition), then))


def require(solver: Any, condition: Formula) -> None:
    """Adds a formula to a solver, without z3's checks of sorts."""
    if condition is False:
        solver.add(z3.BoolVal(False))
    elif condition is not True:
        z3.Z3_solver_assert(_CONTEXT.ref(), solver.solver, condition.ast)


# --- values ---------------------------------------------------------------------------------------


def compared(comparison: str, left: Value, right: Value) -> Formula:
    """A comparison by its PTX name."""
    if isinstance(left, int) and isinstance(right, int):
        return _compared(comparison, left, right)
    if left is right:
        return comparison in ("eq", "le", "ge")
    return _compared(comparison, left, right)


def _compared(comparison: str, left: Value, right: Value) -> Formula:
    if comparison == "eq":
        return left == right
    if comparison == "ne":
        return left != right
    if comparison == "lt":
        return left < right
    if comparison == "le":
        return left <= right
    return left > right if comparison == "gt" else left >= right


def condition_formula(condition: Condition, quantity: Mapping[Quantity, Value]) -> Formula:
    """A condition on a final state."""
    if isinstance(condition, Compare):
        left, right = (
            each if isinstance(each, int) else quantity[each]
            for each in (condition.left, condition.right)
        )
        return compared(condition.comparison, left, right)
    parts = [condition_formula(part, quantity) for part in condition.parts]
    if condition.kind == "and":
        return conjunction(parts)
    return disjunction(parts) if condition.kind == "or" else negation(parts[0])


def chosen(condition: Formula, then: Value, otherwise: Value) -> Value:
    if isinstance(condition, bool):
        return then if condition else otherwise
    return z3.If(condition, then, otherwise)


def applied(function: str, values: Sequence[Value]) -> Value:
    """A function of `code.Apply` on values."""
    if function == "select":
        return chosen(compared("ne", values[0], 0), values[1], values[2])
    a, b = values
    if function == "eq":
        return chosen(compared("eq", a, b), 1, 0)
    if function in ("min", "max"):
        return chosen(compared("le" if function == "min" else "ge", a, b), a, b)
    if function == "add":
        return a + b
    if function == "sub":
        return a - b
    if isinstance(a, int) and isinstance(b, int):
        return computed(function, a, b)
    return _OPAQUE[function](a, b)


def computed(function: str, a: int, b: int) -> int:
    """What the opaque functions stand for; division rounds towards zero, and by zero it gives 0."""
    if function == "mul":
        return a * b
    if function == "div":
        sign = 1 if (a < 0) == (b < 0) else -1
        return sign * (abs(a) // abs(b)) if b else 0
    if function == "and":
        return a & b
    return a | b if function == "or" else a ^ b


# --- opaque functions -----------------------------------------------------------------------------


def has_opaque(test: Test) -> bool:
    """Does some instruction compute what is not linear?"""
    code = [each for thread in test.threads for each in thread.code]
    terms = [t for each in code if isinstance(each, Act) for t in (*each.writes, each.returns)]
    moves = (each.function for each in code if isinstance(each, Arithmetic))
    return any(map(_is_opaque, terms)) or any(function in _OPAQUE for function in moves)


def _is_opaque(term: Term | None) -> bool:
    if not isinstance(term, Apply):
        return False
    return term.function in _OPAQUE or any(map(_is_opaque, term.operands))


def opaque_terms(terms: Iterable[Any]) -> list[Any]:
    """The applications of opaque functions in terms, inner ones first."""
    seen: set[int] = set()
    found: list[Any] = []
    for term in terms:
        if z3.is_expr(term):
            _collect(term, seen, found)
    return found


def _collect(term: Any, seen: set[int], found: list[Any]) -> None:
    if term.get_id() in seen:
        return
    seen.add(term.get_id())
    for child in term.children():
        _collect(child, seen, found)
    if term.num_args() == 2 and any(term.decl().eq(each) for each in _OPAQUE.values()):
        found.append(term)


def corrections(model: Any, terms: Sequence[Any]) -> Iterator[Formula]:
    """Facts about opaque functions that a model has got wrong."""
    for term in terms:
        a, b = (number(model, child) for child in term.children())
        function = term.decl()
        right = computed(function.name(), a, b)
        if number(model, function(a, b)) != right:
            yield function(a, b) == right


def number(model: Any, value: Value) -> int:
    """A value in a model."""
    if isinstance(value, int):
        return value
    return int(model.eval(value, model_completion=True).as_long())


def true_in(model: Any, formula: Formula) -> bool:
    if isinstance(formula, bool):
        return formula
    return bool(z3.is_true(model.eval(formula, model_completion=True)))
