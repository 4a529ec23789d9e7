"""Fuzz everything that reads a launch, guided by what of it runs: `make fuzz`.

Options are libFuzzer's: -max_total_time=3600. What breaks is kept below build/fuzz, and so are
inputs that reached something new. An input is a command line, a word to a line, and after each
separator a file: its path, a line break, its content.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import atheris
from pydantic import ValidationError

with atheris.instrument_imports(include=["trainfit.launch", "trainfit.documents"]):
    from trainfit.launch.errors import LaunchError
    from trainfit.launch.read import read_launch
    from trainfit.specs.launch import Launch

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data" / "launch"
FINDINGS = ROOT / "build" / "fuzz"
SEPARATOR = "\x1e"
USUAL = ("-max_total_time=60", "-timeout=10", "-rss_limit_mb=2048", "-max_len=16384")
"""Seconds in all and for one input, and what an input may take."""
COMMANDS = {
    ".toml": "torchtitan.train\n--job.config_file\n{}",
    ".yaml": "tune\nrun\nfull_finetune_single_device\n--config\n{}",
    ".json": "deepspeed\ntrain.py\n--deepspeed\n{}",
}
"""How a file is named on a command line, by what it ends in."""


def launch_of(data: bytes) -> Launch:
    """Raises ValidationError where an input is no launch at all."""
    command, *files = data.decode("utf-8", "replace").split(SEPARATOR)
    sent = [
        {"path": path, "content": content}
        for path, _, content in (file.partition("\n") for file in files)
    ]
    return Launch.model_validate({"argv": command.split("\n") if command else None, "files": sent})


def read_one(data: bytes) -> None:
    """Read one input. Whatever else it raises is a finding."""
    with suppress(LaunchError, ValidationError):
        read_launch(launch_of(data))


def seeds() -> dict[str, str]:
    """Inputs by name: every public launch file, alone and named by a command line."""
    found = {}
    for path in sorted(DATA.rglob("*.*")):
        text = path.read_text("utf-8")
        if path.suffix == ".args":
            found[path.name] = f"verl.trainer.main_ppo\n{text.partition(chr(10))[2]}"
            continue
        file = f"{SEPARATOR}{path.name}\n{text}"
        found[path.name] = file
        if path.suffix in COMMANDS:
            found[f"{path.name}.command"] = COMMANDS[path.suffix].format(path.name) + file
    return found


def main() -> None:
    corpus = FINDINGS / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for name, text in seeds().items():
        (corpus / name).write_text(text, "utf-8")
    options = [*USUAL, f"-artifact_prefix={FINDINGS}/", *sys.argv[1:]]
    atheris.Setup([sys.argv[0], *options, str(corpus)], read_one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
