"""A command that is about to start, as it stands: its final words, the environment, the files that
it names and the card of this machine.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any

from trainfit.catalog.gpus import UnknownGpuError, find_gpu
from trainfit.specs.launch import MAX_FILE_LENGTH, MAX_FILES

ENVIRONMENT = re.compile(
    r"(NNODES|NPROC_PER_NODE|WORLD_SIZE|LOCAL_WORLD_SIZE|MASTER_\w+|NODE_RANK|RANK|LOCAL_RANK"
    r"|CUDA_\w+|NCCL_\w+|NVTE_\w+|PYTORCH_\w+|CUBLAS_\w+|SLURM_\w+|ACCELERATE_\w+|FSDP_\w+|PET_\w+)"
)
"""Variables that decide how a run is laid out, and no secret."""
DOCUMENTS = (".json", ".yaml", ".yml", ".toml", ".sh")
NAMED = re.compile(r"[\w./~-]+\.(?:json|ya?ml|toml|sh)\b")
MODEL = "config.json"
QUERY = ("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits")
SECONDS = 10
NAME_LENGTH = 60


@dataclass(frozen=True, slots=True)
class Started:
    """A command that is about to start in a folder, with an environment."""

    words: Sequence[str]
    environment: Mapping[str, str]
    folder: Path

    @property
    def path(self) -> Path:
        """What the command is called by."""
        return Path(self.words[0])

    @property
    def name(self) -> str:
        return shorten(shlex.join(self.words), NAME_LENGTH, placeholder=" ...")

    @property
    def line(self) -> int:
        return 1

    @property
    def job(self) -> dict[str, Any]:
        """The launch that it is."""
        launch = {
            "argv": list(self.words),
            "env": {
                name: value
                for name, value in self.environment.items()
                if ENVIRONMENT.fullmatch(name)
            },
            "files": [{"path": path, "content": text} for path, text in self._files().items()],
        }
        return {"launch": launch}

    def place_of(self, pointer: str, line: int | None) -> tuple[Path, int]:
        """Where a finding stands: in the command, whichever part of it."""
        del pointer
        return self.path, line or 1

    def _files(self) -> dict[str, str]:
        """The files that the words name, and those that these name, under the paths they are
        named by; of a folder the config.json of the model in it.
        """
        found: dict[str, str] = {}
        waiting = [word.rpartition("=")[2] for word in self.words]
        for path in waiting:
            text = _read(self.folder, path)
            if text is None or path in found or len(found) == MAX_FILES:
                continue
            name = path if path.endswith(DOCUMENTS) else f"{path.rstrip('/')}/{MODEL}"
            found[name] = text
            if name == path:
                waiting += NAMED.findall(text)
        return found


def card() -> str | dict[str, int] | None:
    """The card of this machine as its driver tells it, by its name if the catalogue has that; None
    where there is none, or several differ.
    """
    try:
        query = subprocess.run(QUERY, capture_output=True, text=True, check=True, timeout=SECONDS)
    except (OSError, subprocess.SubprocessError):
        return None
    cards = {line.strip() for line in query.stdout.splitlines() if line.strip()}
    if len(cards) != 1:
        return None
    name, _, mebibytes = cards.pop().rpartition(",")
    for spelled in _spellings(name.strip()):
        with suppress(UnknownGpuError):
            return find_gpu(spelled).name
    return {"memory_bytes": int(mebibytes) * 2**20}


def _spellings(name: str) -> Iterator[str]:
    """A name as the driver has it, NVIDIA H100 80GB HBM3, and as the catalogue may."""
    yield name
    parts = name.removeprefix("NVIDIA ").split()
    yield " ".join(parts)
    sizes = [part for part in parts if part.endswith("GB")]
    if sizes:
        yield f"{parts[0].partition('-')[0]}-{sizes[0].rpartition('-')[2]}"


def _read(folder: Path, path: str) -> str | None:
    """The text of a document, or of the config.json in a folder; None where there is none."""
    file = folder / Path(path).expanduser()
    if file.is_dir():
        file /= MODEL
    elif not path.endswith(DOCUMENTS):
        return None
    try:
        if not file.is_file() or file.stat().st_size > MAX_FILE_LENGTH:
            return None
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
