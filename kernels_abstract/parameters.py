"""Values for a kernel's parameters: defaults, what the caller gives, and their types."""

from __future__ import annotations

from collections.abc import Mapping

from ..model.program import InputError
from . import syntax
from .expressions import Value, bounded
from .suggest import suggestion


def settle(kernel: syntax.Kernel, given: Mapping[str, object]) -> dict[str, Value]:
    """The value of every parameter of `kernel`."""
    known: dict[str, syntax.Parameter] = {}
    for parameter in kernel.parameters:
        if known.setdefault(parameter.name, parameter) is not parameter:
            raise parameter.position.error(f"the parameter `{parameter.name}` is declared twice")
    for name in given:
        if name not in known:
            hint = suggestion(str(name), known) or f"; it has {', '.join(known) or 'none'}"
            raise InputError(f"{kernel.name} has no parameter `{name}`{hint}", kernel.path)
    return {
        name: convert(parameter, given[name]) if name in given else parameter.default
        for name, parameter in known.items()
    }


def convert(parameter: syntax.Parameter, value: object) -> Value:
    """`value` as the parameter's type, which is its default's. One integer is a list of one."""
    match parameter.default:
        case bool():
            if isinstance(value, bool):
                return value
            raise wrong(parameter, "true or false", value)
        case int():
            return number(parameter, "an integer", value)
        case tuple():
            items = value if isinstance(value, list | tuple) else [value]
            return tuple(number(parameter, "integers, as in 1,3,2", item) for item in items)
    if isinstance(value, str) and value in parameter.words:
        return value
    raise wrong(parameter, " or ".join(parameter.words), value)


def number(parameter: syntax.Parameter, wanted: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return bounded(value, parameter.position)
    raise wrong(parameter, wanted, value)


def wrong(parameter: syntax.Parameter, wanted: str, value: object) -> InputError:
    shown = repr(value)
    shown = shown if len(shown) < 60 else shown[:57] + "..."
    return InputError(f"`{parameter.name}` takes {wanted}, not {shown}", str(parameter.position))
