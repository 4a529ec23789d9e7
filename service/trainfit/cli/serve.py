"""`trainfit serve`."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter
from pydantic import ValidationError

from trainfit.api.settings import ServiceSettings
from trainfit.cli.errors import RefusedCommandError
from trainfit.hub.settings import variable_of

HOST = Parameter(help="Address to listen on. Unset: TRAINFIT_HOST, else 127.0.0.1.")
PORT = Parameter(help="Port to listen on. Unset: TRAINFIT_PORT, else 8080.")


def serve(
    *, host: Annotated[str | None, HOST] = None, port: Annotated[int | None, PORT] = None
) -> None:
    """Answer over HTTP until the process is told to stop."""
    given: dict[str, Any] = {"host": host, "port": port}
    try:
        settings = ServiceSettings(
            **{name: value for name, value in given.items() if value is not None}
        )
    except ValidationError as error:
        raise RefusedCommandError("\n".join(_lines(error, given))) from None
    from trainfit.api.server import serve as serve_http

    serve_http(settings)


def _lines(error: ValidationError, given: dict[str, Any]) -> list[str]:
    names = (
        (str(each["loc"][0]), each["msg"].removeprefix("Value error, ")) for each in error.errors()
    )
    return [
        f"trainfit: {f'--{name}' if given.get(name) is not None else variable_of(name)}: {message}"
        for name, message in names
    ]
