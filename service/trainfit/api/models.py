"""Models of requests, looked up before a job is priced."""

from collections.abc import Iterable
from typing import Annotated

from fastapi import Header, Request

from trainfit.questions.lookup import Lookup
from trainfit.questions.models import Models
from trainfit.specs.model import Model

TOKEN_HEADER = "X-HF-Token"
HfToken = Annotated[
    str | None,
    Header(
        alias=TOKEN_HEADER,
        min_length=1,
        max_length=256,
        pattern=r"^[!-~]+$",
        description="The caller's own token of the Hub, for models that are gated or private. It "
        "is used for this request alone, sent to the Hub alone, and neither logged nor stored.",
    ),
]


async def look_up(request: Request, models: Iterable[Model], token: str | None = None) -> Models:
    """What the models of a request are resolved to, or why not."""
    lookup: Lookup = request.app.state.lookup
    return await lookup.find(models, token)


async def known_model(request: Request, model: Model) -> Models:
    """A model as far as it is known without asking the Hub."""
    lookup: Lookup = request.app.state.lookup
    return await lookup.known(model)
