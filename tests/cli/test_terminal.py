"""Reports at a terminal of 80 columns."""

from __future__ import annotations

import os
import pty
import re
import struct
import subprocess
from fcntl import ioctl
from termios import TIOCSWINSZ

import pytest

from tests.forking import forked_programs

COLUMNS = 80
DEEPSEEK_V3 = (
    "estimate deepseek-ai/DeepSeek-V3 --tp 4 --pp 4 --ep 8 --num-gpus 128 "
    "--num-layers-in-last-pipeline-stage 16 --gpu H100-80GB"
)


def at_a_terminal(line: str, columns: int, *, plain: bool = True) -> str:
    """What a terminal of so many columns shows, without its colours if `plain`."""
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    unset = ("COLUMNS", "NO_COLOR", "FORCE_COLOR")
    env = {name: value for name, value in os.environ.items() if name not in unset}
    shown = b""
    command = [str(forked_programs() / "trainfit"), *line.split()]
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, env={**env, "TERM": "xterm"}):
        os.close(theirs)
        try:
            while part := os.read(ours, 65_536):
                shown += part
        except OSError:  # the other end is closed
            pass
    os.close(ours)
    text = shown.decode().replace("\r\n", "\n")
    return re.sub(r"\x1b\[[0-9;]*m", "", text) if plain else text


@pytest.mark.parametrize(
    "line",
    [
        DEEPSEEK_V3,
        f"{DEEPSEEK_V3} --verbose",
        f"{DEEPSEEK_V3} --tree",
        "gpus",
        "estimate --help",
        "fit-check deploy/ci/example-jobs.yaml",
        "compare deploy/ci/example-jobs.yaml",
        "job from-launch deploy/ci/example-pretrain.sh",
        "search Qwen/Qwen3-8B --gpu H100-80GB --max-gpus 16 --global-batch-size 64",
        "trace Qwen/Qwen3-8B --framework transformers --num-gpus 1",
    ],
)
def test_nothing_is_wider_than_the_terminal(line: str) -> None:
    shown = at_a_terminal(line, COLUMNS)
    assert "Traceback" not in shown
    assert [each for each in shown.splitlines() if len(each) > COLUMNS] == []
    assert "…" not in shown


def test_a_narrow_table_names_what_it_leaves_out_and_a_wide_one_has_it() -> None:
    narrow, wide = (at_a_terminal(DEEPSEEK_V3, columns) for columns in (COLUMNS, 200))
    assert "terminal has: layers, allocated, in flight, reserved, peak at" in narrow
    assert "133.1–153.9" in narrow
    assert "terminal has" not in wide
    assert "moe forward, layer 29" in wide


def test_the_verdict_is_coloured() -> None:
    shown = at_a_terminal(DEEPSEEK_V3, 120, plain=False)
    red, green = "\x1b[1;31m", "\x1b[1;32m"
    assert f"{red}does not fit H100-80GB-SXM" in shown
    assert f"{green}fits B200" in shown
