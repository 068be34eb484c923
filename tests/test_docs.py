"""The documents are true: the generated page is fresh, and what is named exists."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
from lastread.model import interleavings, operations

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]
PACKAGES = (
    "model",
    "model/axiomatic",
    "kernels_abstract",
    "litmus",
    "litmus/language",
    "litmus/diy",
)
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")
CODE = re.compile(r"`([\w/.]+/[\w.]+\.(?:py|md|lark|lock))`")


def test_the_rules_page_is_fresh() -> None:
    make = runpy.run_path(str(DOCS / "make_rules.py"))
    fresh = make["page"]() == (DOCS / "rules.md").read_text(encoding="utf-8")
    assert fresh, "docs/rules.md is stale: run `python docs/make_rules.py` and read the diff"
    assert "None" not in make["page"]()


@pytest.mark.parametrize(
    "limit",
    (
        f"{interleavings.MAX_OPERATIONS} synchronization operations",
        f"more than {operations.MAX_PAIRS})",
        f"more than {interleavings.MAX_MATCHINGS} matchings",
        f"{interleavings.SEARCH_UNITS // 1_000_000} million units",
    ),
)
def test_the_limits_of_the_search_are_those_of_the_code(limit: str) -> None:
    assert limit in (DOCS / "limits.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        path = page.parent / target if target else page
        assert path.exists(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in headings(path), f"{page.name} links to {target}#{anchor}"


def headings(path: Path) -> set[str]:
    """The anchors of a page, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_are_named_exist(page: Path) -> None:
    named = CODE.findall(page.read_text(encoding="utf-8"))
    assert [name for name in named if not (ROOT / name).exists()] == []


def file_map(package: str) -> set[str]:
    """The files that the map lists for a folder: from the line about it to that of the next."""
    _, text = (DOCS / "architecture.md").read_text(encoding="utf-8").split("## File map\n")
    parts = re.split(r"^`([\w/]+)/`", text, flags=re.MULTILINE)
    rows = re.findall(r"^\| (.*?) \|", parts[parts.index(package) + 1], re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([\w.]+\.\w+)`", row)}


def test_every_package_is_in_the_file_map() -> None:
    folders = {path.parent for path in ROOT.glob("*/**/__init__.py")}
    packages = {path.relative_to(ROOT).as_posix() for path in folders}
    assert {path for path in packages if path.split("/")[0] in PACKAGES} == set(PACKAGES)


@pytest.mark.parametrize("package", PACKAGES)
def test_the_file_map_lists_the_modules(package: str) -> None:
    modules = {p.name for p in (ROOT / package).glob("*.py") if not p.name.startswith("__")}
    listed = file_map(package)
    missing = modules - listed
    assert not missing, f"docs/architecture.md: say in the file map what {missing} hold"
    assert [name for name in listed if not (ROOT / package / name).exists()] == []
