"""What an operator may set, each as an environment variable."""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, FilePath, ValidationInfo, field_validator
from pydantic_settings import NoDecode

from trainfit.api.api_keys import ApiKey, read_entries
from trainfit.api.logs import Format
from trainfit.hub.settings import HubSettings

ORIGIN = re.compile(r"\*|https?://[A-Za-z0-9.-]+(:[0-9]+)?")
SERVICE_LINK = re.compile(r"TRAINFIT_(SERVICE|PORT)_.*")
"""What Kubernetes sets in every container beside a Service that is called trainfit."""


def _not_linked(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("tcp://"):
        raise ValueError(
            "is what Kubernetes sets for a Service of this name; let the Pod have "
            "enableServiceLinks: false, or give the Service another name"
        )
    return value


def _origins(given: str | tuple[str, ...]) -> tuple[str, ...]:
    origins = tuple(given.replace(",", " ").split()) if isinstance(given, str) else given
    if not all(ORIGIN.fullmatch(origin) for origin in origins):
        raise ValueError("must be origins such as https://portal.example.org, or *")
    return origins


class ServiceSettings(HubSettings):
    """The service's settings. A field is read from TRAINFIT_ and its name in capitals."""

    serve: Literal["all", "admission"] = Field(
        "all",
        description="admission: the webhook for Kubernetes alone, beside health and metrics; every "
        "other path is answered with 404.",
    )
    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: Annotated[int, Field(ge=0, le=65_535), BeforeValidator(_not_linked)] = Field(
        8080, description="Port to listen on; 0 takes any that is free."
    )
    max_body_bytes: Annotated[int, Field(ge=1)] = Field(
        1_048_576, description="Largest request body; a longer one is answered with 413."
    )
    max_concurrent_requests: Annotated[int, Field(ge=1)] = Field(
        64,
        description="Requests under /v1 that are answered at once; one more gets 503 and "
        "Retry-After. Bodies that arrive slowly take as much memory as so many of the largest.",
    )
    tls_cert: FilePath | None = Field(
        None,
        description="Certificate in PEM, with its chain: serve HTTPS. May be renewed in place.",
    )
    tls_key: FilePath | None = Field(
        None, description="Private key of the certificate, in PEM.", validate_default=True
    )
    body_timeout_seconds: Annotated[float, Field(gt=0)] = Field(
        10,
        description="Time for the head of a request to arrive, after which its connection is "
        "closed, and then for its body; what comes later is answered with 408. As long, too, until "
        "half of what is left of an answer must have been taken.",
    )
    request_timeout_seconds: Annotated[float, Field(gt=0)] = Field(
        10,
        description="Time for a request to be answered, its body included; later the answer is "
        "503 and Retry-After.",
    )
    max_answer_bytes: Annotated[int, Field(ge=1)] = Field(
        16_777_216, description="Largest answer; what would be longer is refused with 422."
    )
    worker_processes: Annotated[int, Field(ge=0, le=64)] = Field(
        2,
        description="Processes that read launches; half as many price what takes long, and as "
        "many answer what takes little. 0: threads of the service do all of it, which nothing can "
        "end: for a debugger.",
    )
    worker_memory_bytes: Annotated[int, Field(ge=67_108_864)] = Field(
        268_435_456,
        description="Memory that one question may take in a worker; more is refused with 422.",
    )
    worker_cpu_seconds: Annotated[int, Field(ge=1)] = Field(
        5,
        description="Processor time that one question may take in a worker; more is refused with "
        "422.",
    )
    api_keys: Annotated[tuple[ApiKey, ...], NoDecode, BeforeValidator(read_entries)] = Field(
        (),
        description="Keys with which callers may ask, by their digests: entries LABEL=SHA256 "
        "between commas, as trainfit keys new prints them. None: anyone may ask.",
    )
    metrics_need_key: bool = Field(
        False, description="Whether /metrics, too, is for callers with a key only."
    )
    rate_limit: Annotated[int, Field(ge=0)] = Field(
        0,
        description="Requests that a caller may send at once and, spread evenly, within each "
        "window; one more is answered with 429. 0: no limit.",
    )
    rate_limit_window_seconds: Annotated[int, Field(ge=1)] = Field(
        60, description="The window of the rate limit."
    )
    answer_cache_bytes: Annotated[int, Field(ge=0)] = Field(
        33_554_432,
        description="Memory for estimates that were answered, so that the same question is not "
        "worked out twice. 0: none are remembered.",
    )
    cors_origins: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_origins)] = Field(
        (),
        description="Origins, between commas, whose pages may ask from a browser; * is any. "
        "None: only the service's own pages.",
    )
    forwarded_allow_ips: str = Field(
        "127.0.0.1,::1",
        validation_alias="FORWARDED_ALLOW_IPS",
        description="Addresses and networks, between commas, of proxies whose X-Forwarded-For "
        "says who the client is; * is any.",
    )
    shutdown_delay_seconds: Annotated[float, Field(ge=0)] = Field(
        0,
        description="How long to go on answering, with /readyz at 503, after SIGTERM, so that "
        "load balancers notice.",
    )
    shutdown_grace_seconds: Annotated[int, Field(ge=0)] = Field(
        20, description="Time for requests under way to end after that."
    )
    log_format: Format = Field(
        "auto", description="json, or console for a person; auto: console at a terminal only."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least severe entry that is logged; each request is an info."
    )
    workers: Annotated[int, Field(ge=1)] = Field(
        1,
        validation_alias="WEB_CONCURRENCY",
        description="Only 1: each process would keep metrics of its own. Scale by replicas.",
    )

    @field_validator("tls_key")
    @classmethod
    def _goes_with_its_certificate(cls, key: Path | None, rest: ValidationInfo) -> Path | None:
        if "tls_cert" in rest.data and (key is None) != (rest.data["tls_cert"] is None):
            raise ValueError("a certificate and its key are set together")
        return key


def unknown_variables(environ: Mapping[str, str]) -> Iterator[tuple[str, str | None]]:
    """Variables that look like settings and are none, each with the one that may be meant."""
    fields = ServiceSettings.model_fields.items()
    known = [name.upper() for name, field in fields if field.validation_alias is None]
    for variable in sorted(environ):
        prefix, _, name = variable.partition("_")
        if prefix == "TRAINFIT" and name not in known and not SERVICE_LINK.fullmatch(variable):
            close = get_close_matches(name, known, 1)
            yield variable, f"TRAINFIT_{close[0]}" if close else None
