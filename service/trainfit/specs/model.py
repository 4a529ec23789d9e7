"""Which model is trained: a Hub id, a config.json, or Megatron's own argument names."""

from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator

from trainfit.specs.part import Part
from trainfit.specs.transformer_config import TransformerConfig

HF_ID = r"^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)?$"
REVISION = r"^[A-Za-z0-9_][A-Za-z0-9._/-]*$"


def _check_id(hf_id: str) -> str:
    """The Hub's own rules, as far as a pattern does not hold them."""
    if "--" in hf_id or ".." in hf_id:
        raise ValueError("must be without -- and ..")
    if any(name.endswith(("-", ".", ".git")) for name in hf_id.split("/")):
        raise ValueError("must have no name that ends in a dash, a dot or .git")
    return hf_id


def _check_revision(revision: str) -> str:
    """Git's rules for the name of a branch or tag, as far as a pattern does not hold them."""
    if any(part in ("", ".", "..") for part in revision.split("/")) or ".." in revision:
        raise ValueError("must be the name of a branch or tag, or a commit")
    return revision


HubId = Annotated[str, Field(pattern=HF_ID, max_length=96), AfterValidator(_check_id)]
Revision = Annotated[str, Field(pattern=REVISION, max_length=128), AfterValidator(_check_revision)]


class Model(Part):
    """Exactly one of hf_id, hf_config and spec."""

    hf_id: HubId | None = Field(
        None,
        description="Repository on the Hugging Face Hub.",
        examples=["deepseek-ai/DeepSeek-V3"],
    )
    revision: Revision | None = Field(
        None, description="Branch, tag or commit of hf_id. Unset: main."
    )
    hf_config: dict[str, Any] | None = Field(None, description="The contents of a config.json.")
    spec: TransformerConfig | None = Field(
        None, description="An architecture of one's own, in Megatron's TransformerConfig names."
    )

    @model_validator(mode="after")
    def _exactly_one_source(self) -> Self:
        given = [n for n in ("hf_id", "hf_config", "spec") if getattr(self, n) is not None]
        if len(given) != 1:
            raise ValueError("give exactly one of hf_id, hf_config and spec")
        if self.revision is not None and self.hf_id is None:
            raise ValueError("a revision goes with hf_id only")
        return self


class ModelRequest(Part):
    """A question about a model alone."""

    model: Model
