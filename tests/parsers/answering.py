"""Launches that come as JSON on standard input, each answered with the keys of its config."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any


def answer(parse: Callable[[list[str]], Mapping[str, Any]]) -> None:
    """Answer each launch of files and words with what `parse` makes of the words where the files
    are: a mapping by dotted keys, or null where it refuses.
    """
    given = json.load(sys.stdin)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        answers = [_answer(parse, launch) for launch in given]
    json.dump(answers, sys.stdout, default=str)


def _answer(
    parse: Callable[[list[str]], Mapping[str, Any]], launch: Mapping[str, Any]
) -> dict[str, Any] | None:
    with tempfile.TemporaryDirectory() as folder:
        for path, text in launch["files"].items():
            (Path(folder) / path).write_text(text, "utf-8")
        os.chdir(folder)
        try:
            return dict(_leaves(parse(launch["words"]), ""))
        except (Exception, SystemExit):
            return None


def _leaves(part: Mapping[str, Any], before: str) -> Iterator[tuple[str, Any]]:
    for name, value in part.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value
