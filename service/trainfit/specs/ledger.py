"""A question about one pipeline rank of a job."""

from typing import Annotated

from pydantic import Field

from trainfit.specs.job import Job


class LedgerRequest(Job):
    """A job, and the rank whose ledger is asked for."""

    pp_rank: Annotated[int, Field(ge=0)] | None = Field(
        None, description="Pipeline rank, from 0. Unset: the one that needs most."
    )


class TraceRequest(LedgerRequest):
    """A job, and the rank whose requests are replayed."""
