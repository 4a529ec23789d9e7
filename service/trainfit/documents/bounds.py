"""How large a text may be as a value: counted before the value is made, since a few bytes can stand
for gigabytes (YAML's aliases and merge keys) or keep a parser busy for minutes (deep nesting).
"""

MAX_VALUES = 100_000
"""Keys and values of one text, aliases followed: more than any file of jobs has."""
MAX_CHARACTERS = 8_388_608
"""Of all text in them, aliases followed."""
MAX_DEPTH = 64
"""Lists and objects within one another; a job has 8."""
MAX_NUMBER_LENGTH = 128
"""Characters of one number."""


class FileError(ValueError):
    """A file that cannot be read; `line` counts from 1."""

    def __init__(self, message: str, line: int = 1) -> None:
        super().__init__(message)
        self.line = line


class TooLargeError(FileError):
    """The text exceeds one of these bounds, which the message names."""


def too_deep(line: int = 1) -> TooLargeError:
    """What is raised for a text that is nested too deeply."""
    return TooLargeError(f"is nested too deeply; at most {MAX_DEPTH} levels are read", line)


def too_many_values(line: int = 1) -> TooLargeError:
    """What is raised for a text that stands for too many values."""
    return TooLargeError(f"has more than {MAX_VALUES} values", line)


def too_long(line: int = 1) -> TooLargeError:
    """What is raised where aliases repeat a text too often."""
    return TooLargeError(f"has more than {MAX_CHARACTERS} characters, aliases followed", line)
