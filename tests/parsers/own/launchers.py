"""What the parsers of torchrun and accelerate launch make of their command lines.

Pairs of a launcher and its words come as JSON on standard input. Of each a mapping of arguments is
answered, or null where the parser refuses it.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from argparse import ArgumentParser
from typing import Any

from accelerate.commands.launch import launch_command_parser
from torch.distributed.run import get_args_parser


def parsed(parser: ArgumentParser, words: list[str]) -> dict[str, Any] | None:
    try:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            return dict(vars(parser.parse_args(words)))
    except SystemExit:
        return None


def main() -> None:
    parsers = {"torchrun": get_args_parser(), "accelerate": launch_command_parser()}
    answers = [parsed(parsers[name], words) for name, words in json.load(sys.stdin)]
    json.dump(answers, sys.stdout, default=str)


if __name__ == "__main__":
    main()
