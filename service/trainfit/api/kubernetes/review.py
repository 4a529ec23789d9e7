"""AdmissionReview of admission.k8s.io/v1: what the API server asks, and what it is answered.

Only what the service reads is described; Kubernetes adds fields, and they are let pass.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

ApiVersion = Literal["admission.k8s.io/v1"]
KindName = Literal["AdmissionReview"]


class _Asked(BaseModel):
    model_config = ConfigDict(
        frozen=True, strict=True, json_schema_extra={"additionalProperties": True}
    )


class GroupVersionKind(_Asked):
    """The kind of an object."""

    group: str = Field(..., description='Empty for the core group; "batch" of a Job.')
    version: str
    kind: str


class AdmissionRequest(_Asked):
    """One object on its way into the cluster; without one where it is deleted."""

    uid: Annotated[str, Field(min_length=1, max_length=128)] = Field(
        ..., description="Names the request; the answer repeats it."
    )
    kind: GroupVersionKind
    object: dict[str, Any] | None = Field(None, description="The object as it would be stored.")


class AdmissionReview(_Asked):
    """A question of the API server."""

    api_version: ApiVersion = Field(..., alias="apiVersion")
    kind: KindName
    request: AdmissionRequest


@dataclass(frozen=True, slots=True)
class Refusal:
    """A Status of Kubernetes: what the one who submits the object reads."""

    status: Literal["Failure"]
    message: str
    reason: Literal["Forbidden"]
    code: int


@dataclass(frozen=True, slots=True)
class AdmissionResponse:
    """Whether the object may pass. `status` is null unless it may not; `warnings` are shown to the
    one who submits it; `auditAnnotations` are for the cluster's audit log.
    """

    uid: str
    allowed: bool
    status: Refusal | None
    warnings: list[str]
    audit_annotations: Annotated[dict[str, str], Field(serialization_alias="auditAnnotations")]


@dataclass(frozen=True, slots=True)
class AdmissionReviewed:
    """The answer to a question of the API server, an AdmissionReview itself."""

    api_version: Annotated[ApiVersion, Field(serialization_alias="apiVersion")]
    kind: KindName
    response: AdmissionResponse
