"""Ctrl-C ends the command at once, also in the middle of long work: 130, one line, no traceback."""

from __future__ import annotations

import signal
import subprocess
import sys
import time


def test_an_interrupt_ends_the_command() -> None:
    command = [sys.executable, "-m", "lastread.litmus", "check", "flashinfer_mla_2cta_bf16"]
    work = ["--set", "work=" + ",".join(["8"] * 8)]
    process = subprocess.Popen(
        [*command, *work], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=10)
    assert (process.returncode, out, err) == (130, "", "lastread: interrupted\n")
