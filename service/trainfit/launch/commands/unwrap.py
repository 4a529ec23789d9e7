"""From what was sent to the programs that it starts."""

from __future__ import annotations

from trainfit.launch.program import Program, Word
from trainfit.launch.settings import Setting
from trainfit.specs.launch import Launch


def programs_of(launch: Launch) -> list[Program]:
    """Every program that the launch starts; where it starts none, one of its files alone."""
    files = {file.path: file for file in launch.files}
    environment = {name: Setting(name, value, "env", None) for name, value in launch.env.items()}
    words = tuple(Word(text, "argv", None) for text in launch.argv or ())
    name = words[0].text if words else None
    return [Program(name, words[1:], environment, files)]
