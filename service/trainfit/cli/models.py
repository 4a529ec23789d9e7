"""`trainfit models`: those of the package, and those of the Hub that are kept on this machine."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import Annotated

from cyclopts import App, Parameter
from pydantic import ValidationError

from trainfit.catalog.configs import bundled_ids
from trainfit.cli.errors import REFUSED, RefusedCommandError
from trainfit.cli.lookup import open_hub, read_settings
from trainfit.cli.terminal import print_all, print_json, table
from trainfit.cli.values import having
from trainfit.hub.errors import HubError
from trainfit.questions.wire import to_json
from trainfit.specs.model import Model

MINUTE = 60
HOUR = 60 * MINUTE
DAY = 24 * HOUR

JSON = Parameter(name="--json", negative=(), show_default=False, help="Print what HTTP answers.")
CACHE_JSON = Parameter(name="--json", negative=(), show_default=False, help="Print JSON instead.")
WORDS = Parameter(name="WORDS", help="List those alone whose ids have all of these.")
IDS = Parameter(help="Ids of the Hub, each with @REVISION where it is not to be main.")

app = App(name="models", help="List the models that need no config.json, an id a line.")


@dataclass(frozen=True, slots=True)
class CachedModel:
    """A model of the Hub that is kept on this machine. `private`: a token showed it."""

    hf_id: str
    revision: str
    commit: str
    age_seconds: int
    private: bool


@dataclass(frozen=True, slots=True)
class CachedModels:
    """All of them, by id and revision."""

    models: list[CachedModel]


@app.default
def bundled(*words: Annotated[str, WORDS], as_json: Annotated[bool, JSON] = False) -> None:
    """List the models that need no config.json, an id a line."""
    if as_json:
        from trainfit.questions.catalogues import ModelList, bundled_models

        models = having(words, bundled_models().models, lambda each: each.hf_id)
        print_json(to_json(ModelList(models)))
    else:
        print("\n".join(having(words, bundled_ids(), str)))


@app.command
def pull(ids: Annotated[list[str], IDS], /) -> int:
    """Fetch models from the Hub and keep them on this machine, in TRAINFIT_CACHE_DIR.

    A folder that is filled so answers where there is no network, with HF_HUB_OFFLINE=1. The exit
    code is 2 where one of them was not fetched.
    """
    wanted = [(each, *_named(each)) for each in ids]
    code = 0
    with open_hub(online=True) as (hub, runner, settings):
        _check_kept(settings.cache_folder())
        for named, hf_id, revision in wanted:
            try:
                found = runner.run(hub.pull(hf_id, revision))
            except HubError as error:
                print(f"trainfit: {named}: {error}", file=sys.stderr)
                code = REFUSED
            else:
                print(f"{found.ref.name} {found.ref.commit}")
    return code


@app.command(name="list")
def cached(*, as_json: Annotated[bool, CACHE_JSON] = False) -> None:
    """List the models of the Hub that are kept on this machine, in TRAINFIT_CACHE_DIR."""
    models = _cached()
    if as_json:
        print_json(to_json(CachedModels(models)))
        return
    rows = table(["model", "revision", "commit"], ["confirmed"])
    rows.add_column("")
    for each in models:
        private = "with a token" if each.private else ""
        rows.add_row(each.hf_id, each.revision, each.commit, _ago(each.age_seconds), private)
    print_all(rows)


def _named(text: str) -> tuple[str, str | None]:
    """The id and the revision of ID@REVISION."""
    hf_id, _, revision = text.partition("@")
    try:
        model = Model(hf_id=hf_id, revision=revision or None)
    except ValidationError:
        words = "must be ORG/NAME or ORG/NAME@REVISION"
        raise RefusedCommandError(f"trainfit: {text}: {words}") from None
    return hf_id, model.revision


def _check_kept(folder: Path | None) -> None:
    """Refuse to fetch what could not be kept."""
    if folder is None:
        raise RefusedCommandError("trainfit: TRAINFIT_CACHE_DIR: is empty, so nothing is kept")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise RefusedCommandError(f"trainfit: TRAINFIT_CACHE_DIR: {error.strerror}") from None
    if not os.access(folder, os.W_OK):
        raise RefusedCommandError("trainfit: TRAINFIT_CACHE_DIR: cannot be written")


def _cached() -> list[CachedModel]:
    from trainfit.hub.disk import Disk

    settings = read_settings()
    folder = settings.cache_folder()
    if folder is None:
        return []
    disk = Disk(folder, settings.hf_endpoint)
    try:
        return [
            CachedModel(
                hf_id=each.repo,
                revision=each.revision,
                commit=each.ref.commit,
                age_seconds=max(0, int(time() - each.ref.checked_at)),
                private=each.private,
            )
            for each in disk.listed()
        ]
    finally:
        disk.close()


def _ago(seconds: int) -> str:
    """As one says it: the largest whole unit."""
    for size, unit in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit} ago"
    return "now"
