"""Scripts run by bash itself, in a folder of their own, where nothing but recorders is on PATH."""

from __future__ import annotations

import resource
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

BASH = shutil.which("bash")

LAUNCHERS = (
    *("accelerate", "axolotl", "deepspeed", "llamafactory-cli", "mpiexec", "mpirun", "pretrain"),
    *("python", "python3", "srun", "torchrun", "train", "tune"),
)
"""What the recorders stand for."""

PREPARING = ("chmod", "cp", "ln", "ls", "module", "mv", "rm", "sleep", "touch")
"""Programs that do nothing here, and succeed."""

HARMLESS = (
    *("awk", "basename", "cat", "dirname", "expr", "grep", "head", "mkdir", "sed", "seq", "tee"),
    *("tr", "wc"),
)
"""Programs that are themselves: they print what follows from their words."""

EXPORTED = ("A", "B", "C", "D", "E", "CUDA_VISIBLE_DEVICES")
"""The variables that a recorder tells."""

SECONDS = 3
SECONDS_OF_MANY = 1
"""For each of many scripts, which end within hundredths, or not at all."""
OUT_OF_TIME = (124, 137, 152)
"""The statuses of what was stopped for its time, or has used up its share of the processor."""

Launch = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]
"""The words of a command, and those of `EXPORTED` that it is given."""


class Sandbox:
    """A folder with the recorders, and one in which scripts run."""

    def __init__(self, root: Path) -> None:
        self._bin, self._work, self._record = root / "bin", root / "work", root / "record"
        self._bin.mkdir()
        told = "".join(
            f'[ "${{{name}+x}}" ] && printf "%s\\0" "{name}=${name}"\n' for name in EXPORTED
        )
        words = 'printf "%s\\0" "${0##*/}" "$@"'
        recorder = (
            f"#!/bin/sh\nexec >> {self._record}\n{words}\nprintf '\\1\\0'\n{told}printf '\\2\\0'\n"
        )
        for name in LAUNCHERS:
            self._put(name, recorder)
        for name in PREPARING:
            self._put(name, "#!/bin/sh\n")
        self._put("date", "#!/bin/sh\necho 1234\n")
        for name in HARMLESS:
            found = shutil.which(name)
            if found is not None:
                (self._bin / name).symlink_to(found)

    def _put(self, name: str, text: str) -> None:
        path = self._bin / name
        path.write_text(text)
        path.chmod(0o755)

    def run_all(
        self, scripts: Sequence[str], files: Mapping[str, str]
    ) -> list[list[Launch] | None]:
        """What each of many scripts starts; None where it does not end."""
        for number, script in enumerate(scripts):
            folder = self._work / str(number)
            folder.mkdir(parents=True)
            for name, content in {"run.sh": script, **files}.items():
                (folder / name).write_text(content)
        self._record.write_bytes(b"")
        # What the driving shell exports of its own would be in the environment of the script.
        each = (
            "ulimit -t 1; ulimit -f 4096; ulimit -v 1000000\n"
            f"cd {self._work}/$n && unset PWD OLDPWD\n"
            f"exec {shutil.which('timeout')} -k 1 {SECONDS_OF_MANY} {BASH} --norc run.sh"
        )
        driver = (
            f"n=0\nwhile [ $n -lt {len(scripts)} ]; do\n"
            f"({each}) < /dev/null > /dev/null 2>&1\n"
            f"printf '%s\\0\\4\\0' $? >> {self._record}\nn=$((n + 1))\ndone"
        )
        variables = {"FUNCNEST": "30", "PATH": str(self._bin)}
        subprocess.run(["/bin/sh", "-c", driver], env=variables, timeout=600, check=True)
        record = self._record.read_bytes().decode("utf-8", "replace")
        return [_ended(part) for part in record.split("\4\0")[:-1]]

    def run(
        self,
        script: str,
        arguments: Sequence[str] = (),
        files: Mapping[str, str] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> list[Launch] | None:
        """What the script starts; None where it does not end in time."""
        assert BASH is not None
        shutil.rmtree(self._work, ignore_errors=True)
        self._work.mkdir()
        self._record.write_bytes(b"")
        for name, content in {"run.sh": script, **(files or {})}.items():
            path = self._work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        try:
            subprocess.run(
                [BASH, "--norc", "run.sh", *arguments],
                cwd=self._work,
                env={"FUNCNEST": "30", "PATH": str(self._bin), **(variables or {})},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=SECONDS,
                check=False,
                preexec_fn=_limited,
            )
        except subprocess.TimeoutExpired:
            return None
        return list(_launches(self._record.read_bytes().decode("utf-8", "replace")))


def _ended(record: str) -> list[Launch] | None:
    """The launches of a script, before its status; None where it was killed for its time."""
    *whole, status = record[:-1].split("\2\0")
    if int(status) in OUT_OF_TIME:
        return None
    return list(_launches("".join(f"{each}\2\0" for each in whole)))


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (2, 2))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 22, 1 << 22))
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))


def _launches(record: str) -> Iterator[Launch]:
    for each in record.split("\2\0")[:-1]:
        words, _, variables = each.partition("\1\0")
        given = (text.partition("=") for text in variables.split("\0")[:-1])
        yield tuple(words.split("\0")[:-1]), tuple((name, value) for name, _, value in given)


@contextmanager
def sandbox() -> Iterator[Sandbox]:
    with TemporaryDirectory(prefix="bash") as folder:
        yield Sandbox(Path(folder))
