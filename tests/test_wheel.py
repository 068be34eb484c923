"""The wheel holds the whole tool: built and installed in a fresh environment, it runs."""

from __future__ import annotations

import fnmatch
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {
    "model": ("py.typed", "axiomatic/explore.py"),
    "litmus": ("py.typed", "language/litmus.lark", "diy/generator.py", "corpus/base/*.litmus"),
    "kernels_abstract": ("py.typed", "kernel.lark", "library/*.kernel"),
}
"""The packages, and some of what they hold in sub-packages and beside Python."""

NOT_SHIPPED = (".pyc", ".pyo")


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy without an index: what setuptools leaves behind stays there."""
    pytest.importorskip("setuptools", minversion="77", reason="the build backend")
    source = tmp_path_factory.mktemp("source")
    for name in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__", ".*")
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    offline = ("--no-build-isolation", "--no-deps", "--no-index")
    run(sys.executable, "-m", "pip", "wheel", "-q", *offline, "-w", "dist", ".", cwd=source)
    (built,) = (source / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel; the dependencies are those of this environment."""
    home = tmp_path_factory.mktemp("fresh") / "venv"
    venv.create(home, symlinks=True)
    pip = (sys.executable, "-m", "pip", "--python", home / "bin" / "python")
    run(*pip, "install", "-q", "--no-deps", "--no-index", wheel, cwd=home)
    (packages,) = home.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home


@pytest.mark.parametrize("package", PACKAGES)
def test_every_file_of_a_package_is_installed(installed: Path, package: str) -> None:
    (home,) = installed.glob("lib/python*/site-packages/lastread")
    wanted = files(ROOT / package)
    assert files(home / package) == wanted
    assert all(fnmatch.filter(wanted, pattern) for pattern in PACKAGES[package])


def files(folder: Path) -> set[str]:
    return {
        name
        for path in folder.rglob("*")
        if path.is_file() and path.suffix not in NOT_SHIPPED
        if not (name := path.relative_to(folder).as_posix()).startswith(".")
    }


def test_the_installed_command_runs_a_test_of_the_corpus(installed: Path, tmp_path: Path) -> None:
    answer = run(installed / "bin" / "lastread", "litmus", "CoWW+2", cwd=tmp_path)
    assert "CoWW+2" in answer


def test_the_installed_command_lists_the_library(installed: Path, tmp_path: Path) -> None:
    command = installed / "bin" / "lastread"
    assert "flashinfer_mla_2cta_bf16" in run(command, "list", cwd=tmp_path)
    assert run(command, "--version", cwd=tmp_path).startswith("lastread ")
