"""What an operator may set, each as an environment variable."""

from typing import Annotated, Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """The service's settings. A field is read from TRAINFIT_ and its name in capitals."""

    model_config = SettingsConfigDict(env_prefix="TRAINFIT_", frozen=True)

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: Annotated[int, Field(ge=0, le=65_535)] = Field(
        8080, description="Port to listen on; 0 takes any that is free."
    )
    max_body_bytes: Annotated[int, Field(ge=1)] = Field(
        1_048_576, description="Largest request body; a longer one is answered with 413."
    )
    max_concurrent_requests: Annotated[int, Field(ge=1)] = Field(
        64,
        description="Requests with a body that are under way at once; one more is answered with "
        "503 and Retry-After.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least severe entry that is logged; each request is an info."
    )
    workers: Annotated[int, Field(ge=1)] = Field(
        1,
        validation_alias="WEB_CONCURRENCY",
        description="Only 1: each process would keep metrics of its own. Scale by replicas.",
    )
