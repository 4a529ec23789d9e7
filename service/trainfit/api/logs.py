"""One line an entry: JSON where a machine reads, colours where a person does. The server's own
entries go the same way.
"""

import json
import logging
import re
import sys
from typing import Any, Literal

import structlog
from structlog.typing import Processor, WrappedLogger

from trainfit.api.api_keys import KEY

Format = Literal["auto", "console", "json"]

SECRETS = (
    KEY,
    re.compile(r"hf_\w{16,}"),
    re.compile(r"Bearer +[\w.~+/=-]+"),
    re.compile(r"bearer +[\w.~+/=-]+"),
    re.compile(r"Basic +[\w+/=]{8,}"),
)
"""Keys, tokens of the Hugging Face Hub, and what else an Authorization header carries. Each by
itself, since a pattern that begins with fixed text is looked for in no time.
"""


def configure_logs(level: str, form: Format = "auto") -> None:
    """Send the service's and the server's entries to standard error, from `level` upwards."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso"),
    ]
    console = sys.stderr.isatty() if form == "auto" else form == "console"
    rendered = _for_a_person() if console else _for_a_machine()
    rendered.append(_without_secrets)
    structlog.configure(
        processors=[*shared, *rendered],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
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
    encode = json.JSONEncoder(default=repr).encode
    return [
        structlog.processors.format_exc_info,
        structlog.processors.JSONRenderer(lambda entry, **_: encode(entry)),
    ]


def _without_secrets(_: WrappedLogger, __: str, line: Any) -> Any:
    """The line without what only a mistake would have put there."""
    for secret in SECRETS:
        line = secret.sub("***", line)
    return line
