"""Models at a terminal: from the caches of this machine, and from the Hub where one may ask it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from trainfit.cli.errors import RefusedCommandError
from trainfit.cli.refusals import refused
from trainfit.questions.dimensions import Find, from_package
from trainfit.questions.jobs import AnyJob
from trainfit.questions.launches import Answer, RequestedJob, read_asked
from trainfit.questions.problems import Problem
from trainfit.specs.model import Model

if TYPE_CHECKING:
    from asyncio import Runner

    from trainfit.hub.hub import Hub
    from trainfit.hub.settings import HubSettings
    from trainfit.launch.reading import LaunchReading

LookUp = Callable[[Iterable[Model]], Find]
"""What models are resolved to, or why not."""


def answered(
    document: dict[str, Any],
    kind: type[AnyJob],
    answer: Callable[[AnyJob, Find, LaunchReading | None], Answer],
    *,
    as_json: bool,
) -> tuple[RequestedJob[AnyJob], Answer]:
    """What a document asks, of this kind, and the answer to it. Raises RefusedCommandError with the
    problem in words or as JSON.
    """
    asked = read_asked(document, kind)
    if isinstance(asked, Problem):
        raise refused(asked, document, as_json=as_json)
    with looking_up(online=True) as look_up:
        find = look_up([asked.job.model])
    found = asked.answered(lambda job, reading: answer(job, find, reading))
    if isinstance(found, Problem):
        raise refused(found, document, as_json=as_json)
    return asked, found


@contextmanager
def looking_up(*, online: bool) -> Iterator[LookUp]:
    """Look up models for one command. Nothing is opened before a Hub id is asked for, and without
    `online` nothing is fetched.
    """
    from contextlib import ExitStack

    with ExitStack() as opened:
        ask: LookUp | None = None

        def find(models: Iterable[Model]) -> Find:
            nonlocal ask
            models = list(models)
            if all(each.hf_id is None for each in models):
                return from_package
            if ask is None:
                ask = _asking(*opened.enter_context(open_hub(online=online)))
            return ask(models)

        yield find


@contextmanager
def open_hub(*, online: bool) -> Iterator[tuple[Hub, Runner, HubSettings]]:
    """The hub of the person at this terminal, with the loop that it runs on."""
    from asyncio import Runner

    from trainfit.hub.hub import Hub

    settings = read_settings()
    try:
        hub = Hub(settings, personal=True, offline=not online)
    except OSError as error:
        raise RefusedCommandError(f"trainfit: HF_TOKEN_PATH: {error.strerror}") from None
    with Runner() as runner:
        try:
            yield hub, runner, settings
        finally:
            runner.run(hub.aclose())


def read_settings() -> HubSettings:
    """The settings of the environment, or RefusedCommandError with what is wrong with them."""
    from pydantic import ValidationError

    from trainfit.hub.settings import HubSettings, variable_of

    try:
        return HubSettings()
    except ValidationError as error:
        wrong = ((str(each["loc"][0]), each["msg"]) for each in error.errors())
        lines = (f"trainfit: {variable_of(name)}: {message}" for name, message in wrong)
        raise RefusedCommandError("\n".join(lines)) from None


def _asking(hub: Hub, runner: Runner, settings: HubSettings) -> LookUp:
    from trainfit.questions.lookup import Lookup

    lookup = Lookup(hub, settings.hub_timeout_seconds)
    return lambda models: runner.run(lookup.find(models))
