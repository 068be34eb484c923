"""What the documents show is what the tool prints.

A block of text under `<!-- output: COMMAND -->` is the output of COMMAND. After a wanted change,
`python tests/test_readme.py` writes the new outputs; read the diff before you commit it.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"(?<=<!-- output: )(lastread [^\n]*)( -->\n+```text\n)(.*?)(?=```)", re.DOTALL)


def output(command: str) -> str:
    """What a command prints when it is piped; an error's text if it prints nothing."""
    _, *arguments = shlex.split(command)
    done = subprocess.run(
        [sys.executable, "-m", "lastread.litmus", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "100"},
    )
    return done.stdout or done.stderr


SHOWN = [
    pytest.param(command, text, id=f"{path.name}: {command}")
    for path in DOCUMENTS
    for command, _, text in BLOCK.findall(path.read_text(encoding="utf-8"))
]


def untimed(text: str) -> str:
    """Without the seconds that a litmus test took."""
    return re.sub(r"^(Time \S+) [0-9.]+$", r"\1", text, flags=re.MULTILINE)


@pytest.mark.parametrize(("command", "text"), SHOWN)
def test_documents_show_what_is_printed(command: str, text: str) -> None:
    assert untimed(output(command)) == untimed(text)


def test_the_readme_shows_an_output_and_the_two_commands() -> None:
    readme = DOCUMENTS[0].read_text(encoding="utf-8")
    assert BLOCK.search(readme)
    setup = re.findall(r"^python3 -m venv \.venv && .*$", readme, re.MULTILINE)
    assert [line.rpartition("bin/")[2].split()[0] for line in setup] == ["lastread", "pytest"]


def rewrite() -> None:
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        path.write_text(BLOCK.sub(lambda m: m[1] + m[2] + output(m[1]), text), encoding="utf-8")


if __name__ == "__main__":
    rewrite()
