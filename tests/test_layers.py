"""The layers of the design: who may import whom, and who may print."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ALLOWED = {
    "model": ("model", "z3"),
    "kernels_abstract": ("kernels_abstract", "model", "lark", "numpy"),
    "litmus": ("litmus", "model", "rich"),
    "litmus/language": ("litmus.language", "model", "lark"),
    "litmus/diy": ("litmus.diy", "model"),
}
"""What the modules of a folder import, beside the standard library; the longest name counts."""

LAZY = {
    "kernels_abstract/generate.py": ("tvm",),
}
"""What a module imports besides, inside a function: nobody else needs it."""

SOLVING = (
    "domains", "formula", "path", "path_dependencies", "paths", "smt", "symbolic", "symbols",
)  # fmt: skip
"""The modules of `model/axiomatic/` that import z3, or such modules. It is slow to load: all others
import it, and them, inside the function that needs them."""

SPEAKERS = ("litmus/cli.py", "kernels_abstract/generate.py")
"""The only modules that print or exit: the command, and the generator, a program of its own."""

COMMAND_LINE = ("litmus/cli.py", "litmus/judging.py")
"""The only modules that import all layers."""

Nodes = Iterator[ast.AST]


def modules() -> list[str]:
    return sorted(
        path.relative_to(ROOT).as_posix()
        for name in ("model", "kernels_abstract", "litmus")
        for path in (ROOT / name).rglob("*.py")
    )


def parsed(module: str) -> ast.Module:
    return ast.parse((ROOT / module).read_text(encoding="utf-8"))


def imported(module: str, nodes: Nodes) -> Iterator[str]:
    """What is imported, by its full name below `lastread`: `model.graph`, `model.graph.Graph`."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.removeprefix("lastread.")
        elif isinstance(node, ast.ImportFrom):
            base = (node.module or "").removeprefix("lastread.")
            if node.level:
                parts = module.split("/")[: -node.level]
                base = ".".join(parts + base.split(".") * bool(base))
            for alias in node.names:
                yield f"{base}.{alias.name}"


def at_once(tree: ast.AST) -> Nodes:
    """The nodes that importing the module executes."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        yield from at_once(node)


def called(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


def within(name: str, packages: tuple[str, ...]) -> bool:
    return any(f"{name}.".startswith(f"{package}.") for package in packages)


def allowed(module: str) -> tuple[str, ...]:
    folder = max((f for f in ALLOWED if module.startswith(f"{f}/")), key=len)
    return ALLOWED[folder] + LAZY.get(module, ())


def test_there_are_modules() -> None:
    assert len(modules()) > 10
    named = [*LAZY, *SPEAKERS, *COMMAND_LINE, *(f"model/axiomatic/{m}.py" for m in SOLVING)]
    assert set(named) <= set(modules())


@pytest.mark.parametrize("module", modules())
def test_a_layer_imports_only_what_lies_below(module: str) -> None:
    if module not in COMMAND_LINE:
        legal = (*allowed(module), *sys.stdlib_module_names)
        names = imported(module, ast.walk(parsed(module)))
        assert [name for name in names if not within(name, legal)] == []


@pytest.mark.parametrize("module", modules())
def test_the_solver_is_loaded_only_when_it_is_needed(module: str) -> None:
    solving = tuple(f"model.axiomatic.{name}" for name in SOLVING)
    if not within(module.removesuffix(".py").replace("/", "."), solving):
        names = imported(module, at_once(parsed(module)))
        assert [name for name in names if within(name, ("z3", *solving))] == []


@pytest.mark.parametrize("module", modules())
def test_only_the_command_line_prints_or_exits(module: str) -> None:
    if module not in SPEAKERS:
        assert not set(called(parsed(module))) & {"print", "sys.exit", "exit", "input"}
