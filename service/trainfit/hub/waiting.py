"""How long a server asks its callers to wait."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

# "api";r=0;t=55, one item for each limit: draft-ietf-httpapi-ratelimit-headers, from its 8th on.
_LIMIT = re.compile(r'"[^"]*"\s*;\s*r\s*=\s*(\d{1,9})\s*;\s*t\s*=\s*(\d{1,9})')


def seconds_to_wait(headers: Mapping[str, str]) -> float | None:
    """The longest wait that Retry-After (seconds or a date) and RateLimit (of the limits that are
    used up) ask for; None where neither says anything.
    """
    waits = [
        float(reset)
        for remaining, reset in _LIMIT.findall(headers.get("ratelimit", ""))
        if not int(remaining)
    ]
    if (wanted := _retry_after(headers.get("retry-after", "").strip())) is not None:
        waits.append(wanted)
    return max(waits, default=None)


def _retry_after(value: str) -> float | None:
    if value.isdecimal():
        return float(value[:9])
    try:
        date = parsedate_to_datetime(value)
    except ValueError:
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return max(0.0, (date - datetime.now(UTC)).total_seconds())
