"""One line an entry: JSON where a machine reads, colours where a person does. The server's own
entries go the same way.
"""

import json
import logging
import re
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from time import time
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import structlog
from pydantic_core import to_json
from structlog.typing import EventDict, Processor, WrappedLogger

from trainfit.api.api_keys import KEY, PREFIX

Format = Literal["auto", "console", "json"]

SECRETS = {
    PREFIX: KEY,
    "hf_": re.compile(r"hf_\w{16,}"),
    "Bearer ": re.compile(r"Bearer +[\w.~+/=-]+"),
    "bearer ": re.compile(r"bearer +[\w.~+/=-]+"),
    "Basic ": re.compile(r"Basic +[\w+/=]{8,}"),
}
"""Keys, tokens of the Hugging Face Hub, and what else an Authorization header carries, by how they
begin: text that does not occur is found out in no time.
"""

OF_REQUEST: ContextVar[Mapping[str, str]] = ContextVar("of_request", default=MappingProxyType({}))
"""What every entry says of the request that it comes of. One variable for all of it, which costs a
request less than structlog's one for each. Names and values are ASCII that JSON has as it is.
"""

_requests: Literal["json", "like others", "none"] = "like others"
"""How entries of requests are made."""


def _write_at_once(entry: Callable[[], str]) -> None:
    sys.stderr.write(entry())


_write_request: Callable[[Callable[[], str]], None] = _write_at_once
"""Where entries of requests go that are put together here."""


def log_request(
    operation: str, method: str, status: int, seconds: float, caller: str | None
) -> None:
    """Log that a request was answered. Each makes this entry, so that for a machine it is put
    together here, which takes half of what it takes by structlog; where the log is written by a
    thread, by that, and no request waits for it.
    """
    if _requests == "none":
        return
    if _requests == "like others":
        known = {} if caller is None else {"caller": caller}
        structlog.get_logger("trainfit").info(
            "request",
            operation=operation,
            method=method,
            status=status,
            duration_seconds=round(seconds, 6),
            **known,
        )
        return
    entry = RequestEntry(OF_REQUEST.get(), operation, method, status, seconds, caller, time())
    _write_request(entry.line)


class RequestEntry(NamedTuple):
    """What is logged of a request, which was answered at `now`."""

    of_request: Mapping[str, str]
    operation: str
    method: str
    status: int
    seconds: float
    caller: str | None
    now: float

    def line(self) -> str:
        """The entry for a machine."""
        of_request, operation, method, status, seconds, caller, now = self
        ids = "".join([f'"{name}":"{value}",' for name, value in of_request.items()])
        by = "" if caller is None else f'"caller":{json.dumps(caller)},'
        return (
            f'{{{_without_secrets(None, "info", ids)}"operation":"{operation}","method":"{method}",'
            f'"status":{status},"duration_seconds":{seconds:.6f},{by}"event":"request",'
            f'"level":"info","timestamp":"{_iso(now)}"}}\n'
        )


def configure_logs(
    level: str,
    form: Format = "auto",
    write_later: Callable[[Callable[[], str]], None] = _write_at_once,
) -> None:
    """Send the service's and the server's entries to standard error, from `level` upwards; those of
    requests, which are many, by `write_later` for a machine.
    """
    global _requests, _write_request
    _write_request = write_later
    console = sys.stderr.isatty() if form == "auto" else form == "console"
    said = logging.getLevelNamesMapping()[level.upper()] <= logging.INFO
    _requests = ("like others" if console else "json") if said else "none"
    rendered = _for_a_person() if console else _for_a_machine()
    rendered.append(_without_secrets)
    structlog.configure(
        processors=[_with_time, *rendered],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[_with_time],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendered],
        )
    )
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)


# The plain formatters of tracebacks, since richer ones print local variables, a job among them.
def _for_a_person() -> list[Processor]:
    plain = structlog.dev.plain_traceback
    return [
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain),
    ]


def _for_a_machine() -> list[Processor]:
    return [structlog.processors.format_exc_info, _as_json]


def _as_json(_: WrappedLogger, __: str, entry: EventDict) -> str:
    """The entry in ASCII, whatever the encoding of standard error is."""
    try:
        return to_json(entry, ensure_ascii=True, fallback=repr).decode()
    except ValueError:  # what is no Unicode, such as half a surrogate pair of a file name
        return json.dumps(entry, default=repr)


def _with_time(_: WrappedLogger, level: str, entry: EventDict) -> EventDict:
    """The entry with its level and its time, and with what it says of its request."""
    return {**OF_REQUEST.get(), **entry, "level": level, "timestamp": _iso(time())}


def _iso(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="microseconds")


def _without_secrets(_: WrappedLogger, __: str, line: Any) -> Any:
    """The line without what only a mistake would have put there."""
    for beginning, secret in SECRETS.items():
        if beginning in line:
            line = secret.sub("***", line)
    return line
