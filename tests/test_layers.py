"""The layers of the design: who may import whom, and who may print."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FORBIDDEN = {
    "model": ("litmus", "kernels_abstract", "lark", "rich"),
    "kernels_abstract": ("litmus", "rich"),
    "litmus": ("kernels_abstract", "lark", "z3"),
}
SPEAKERS = ("litmus/cli.py", "kernels_abstract/generate.py")
"""The only modules that print or exit: the command, and the generator, a program of its own."""

COMMAND_LINE = ("litmus/cli.py", "litmus/judging.py")
"""The only modules that import all layers."""


def modules() -> list[str]:
    return sorted(
        path.relative_to(ROOT).as_posix()
        for name in FORBIDDEN
        for path in (ROOT / name).rglob("*.py")
    )


def imported(tree: ast.AST) -> Iterator[str]:
    """The names of imported packages: the first part below `lastread`, or of another package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.removeprefix("lastread.").split(".")[0]
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").removeprefix("lastread.").split(".")[0]


def called(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


def test_there_are_modules() -> None:
    assert len(modules()) > 10


@pytest.mark.parametrize("module", modules())
def test_a_layer_imports_only_what_lies_below(module: str) -> None:
    tree = ast.parse((ROOT / module).read_text(encoding="utf-8"))
    if module not in COMMAND_LINE:
        assert not set(imported(tree)) & set(FORBIDDEN[module.split("/")[0]])


@pytest.mark.parametrize("module", modules())
def test_only_the_command_line_prints_or_exits(module: str) -> None:
    tree = ast.parse((ROOT / module).read_text(encoding="utf-8"))
    if module not in SPEAKERS:
        assert not set(called(tree)) & {"print", "sys.exit", "exit", "input"}
