"""From a command line to a question: a model, a job file or launch files, and flags over them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainfit.catalog.configs import bundled_by_name, bundled_config, bundled_ids
from trainfit.cli.errors import RefusedCommandError
from trainfit.cli.files import PIPED, read_config, read_documents, read_text
from trainfit.cli.flags import ARCHITECTURE, Flag, flags
from trainfit.cli.launches import NOTHING_SAID, LaunchOptions, sorted_out
from trainfit.cli.overriding import over, over_job
from trainfit.documents.document import FileError, raised_as_file_errors
from trainfit.specs.model import HF_ID

NEVER_CONFIGS = (".toml", ".yaml", ".yml")
NO_MODEL = (
    "trainfit: name a model: a Hub id, the path of a config.json, - for one that is piped in, "
    "--num-layers and what else makes an architecture, or a job with --job\n"
    "  as in trainfit estimate Qwen/Qwen3-8B --num-gpus 8 --gpu H100-80GB"
)
MAX_CLOSE = 5
MAX_SHOWN = 60


def question(
    named: Sequence[str],
    job_file: Path | None,
    given: Mapping[str, Any],
    options: LaunchOptions = NOTHING_SAID,
) -> dict[str, Any]:
    """What is asked as it would be sent over HTTP: a job, or a launch in its place. `given` has the
    values of flags by their keywords.

    Raises RefusedCommandError where a file cannot be read or no model is named.
    """
    paths = [Path(each) for each in named if not _is_inline(each)]
    files = {path: _text(path) for path in paths if path.is_file()}
    launches = sorted_out(files)[1] if job_file is None else []
    if not launches and options.argv is None:
        if len(named) > 1:
            raise RefusedCommandError(f"trainfit: {named[1]}: one model is named, or launch files")
        return job_document(named[0] if named else None, job_file, given)
    if len(launches) > 1:
        firsts = ", ".join(str(group[0]) for group in launches)
        raise RefusedCommandError(f"trainfit: more than one launch: {firsts}")
    models = [each for each in named if Path(each) not in files]
    wrong = [each for each in models if not re.fullmatch(HF_ID, each)] or models[1:]
    if wrong:
        raise RefusedCommandError(f"trainfit: {wrong[0]}: there is no such file")
    model = {"overrides": {"model": _model(models[0])}} if models else {}
    return over({"launch": {**options.launch([*files.items()]), **model}}, given)


def job_document(
    model: str | None, job_file: Path | None, given: Mapping[str, Any]
) -> dict[str, Any]:
    """The job as it would be sent over HTTP."""
    document = _object(job_file, _job) if job_file is not None else {}
    own = next((flag.names[0] for flag in _architecture() if given.get(flag.keyword)), None)
    if model is not None:
        if own is not None:
            raise RefusedCommandError(
                f"trainfit: {own}: is of an architecture in place of MODEL; leave out {own}, or "
                f"{model[:MAX_SHOWN]}"
            )
        inline = _inline(model)
        whole = _in_a_file(model) if inline is None and job_file is None else inline
        if whole is not None and _is_job(whole):
            document = whole
        elif inline is None:
            document["model"] = _model(model)
        else:
            document["model"] = {"hf_config": inline}
    elif "model" not in document and own is None:
        raise RefusedCommandError(NO_MODEL)
    return over_job(document, given)


def called(named: Sequence[str], job_file: Path | None) -> str:
    """What to call a model that has no name of its own."""
    if named:
        return "a config" if _is_inline(named[0]) else named[0]
    return "an architecture" if job_file is None else str(job_file)


def _architecture() -> Iterator[Flag]:
    """The flags that describe an architecture of one's own."""
    return (each for each in flags().values() if each.pointer.startswith(f"{ARCHITECTURE}/"))


def _is_inline(named: str) -> bool:
    return named == str(PIPED) or named.lstrip().startswith("{")


def _inline(named: str) -> dict[str, Any] | None:
    """What is typed in the place of a file, or piped in where `-` is: a config.json, or a job."""
    if not _is_inline(named):
        return None
    text, place = (_text(PIPED), "-") if named == str(PIPED) else (named, "MODEL")
    try:
        with raised_as_file_errors():
            value = json.loads(text)
    except FileError as error:
        raise RefusedCommandError(f"trainfit: {place}: {error}") from None
    if not isinstance(value, dict):
        raise RefusedCommandError(f"trainfit: {place}: must be a config.json or a job, an object")
    return value


def _in_a_file(named: str) -> dict[str, Any] | None:
    """What a file holds that is named in the place of a model, if it can be a job."""
    path = Path(named)
    if path.suffix not in (".json", *NEVER_CONFIGS) or not path.is_file():
        return None
    try:
        value = _job(path) if path.suffix in NEVER_CONFIGS else read_config(path)
    except FileError:
        return None
    return value if isinstance(value, dict) else None


def _is_job(document: Mapping[str, Any]) -> bool:
    """Whether it is a job and no config.json."""
    return isinstance(document.get("model"), dict) and "model_type" not in document


def _text(path: Path) -> str:
    try:
        return read_text(path)
    except FileError as error:
        raise RefusedCommandError(f"trainfit: {path}: {error}") from None


def _model(named: str) -> dict[str, Any]:
    """A path to a config.json, or to the folder that holds it, and otherwise a Hub id."""
    path = Path(named)
    if path.joinpath("config.json").is_file():
        path = path / "config.json"
    if path.suffix in NEVER_CONFIGS and path.is_file():
        raise RefusedCommandError(f"trainfit: {path}: is no config.json; give a job as --job")
    if path.is_file() or named.endswith(".json"):
        return {"hf_config": _object(path, read_config)}
    return {"hf_id": _hub_id(named)}


def _hub_id(named: str) -> str:
    """The id of a model that may be named without its organisation, or by a part of its name."""
    if "/" in named or bundled_config(named) is not None:
        return named
    found = bundled_by_name(named)
    if found is not None:
        return found
    name = named.casefold()
    close = [each for each in bundled_ids() if name in each.rpartition("/")[2].casefold()]
    if not close:
        return named
    close.sort(key=lambda each: (not each.rpartition("/")[2].casefold().startswith(name), each))
    shown = ", ".join(close[:MAX_CLOSE])
    more = f" and {len(close) - MAX_CLOSE} more" if len(close) > MAX_CLOSE else ""
    raise RefusedCommandError(
        f"trainfit: MODEL: {named} is in the names of {shown}{more}\n  use {close[0]}"
    )


def _job(path: Path) -> Any:
    """The value of a file that holds one."""
    documents = read_documents(path)
    return documents[0].value if len(documents) == 1 else None


def _object(path: Path, read: Callable[[Path], Any]) -> dict[str, Any]:
    try:
        content = read(path)
    except FileError as error:
        raise RefusedCommandError(f"trainfit: {path}: {error}") from None
    if not isinstance(content, dict):
        raise RefusedCommandError(f"trainfit: {path}: holds no object")
    return content
