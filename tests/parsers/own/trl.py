"""What TRL's parser makes of command lines of its supervised fine-tuning.

Lists of words come as JSON on standard input. Of each a mapping of arguments is answered, or null
where the parser refuses it.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from typing import Any

from transformers import HfArgumentParser
from trl.scripts.utils import ScriptArguments
from trl.trainer.model_config import ModelConfig
from trl.trainer.sft_config import SFTConfig


def parsed(parser: HfArgumentParser, words: list[str]) -> dict[str, Any] | None:
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            return dict(vars(parser.parse_args(words)))
    except SystemExit:
        return None


def main() -> None:
    parser = HfArgumentParser([ScriptArguments, SFTConfig, ModelConfig])
    answers = [parsed(parser, words) for words in json.load(sys.stdin)]
    json.dump(answers, sys.stdout, default=str)


if __name__ == "__main__":
    main()
