"""Which model is trained: a Hub id, a config.json, or Megatron's own argument names."""

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from trainfit.specs.part import Part
from trainfit.specs.transformer_config import TransformerConfig

HF_ID = r"^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?$"
REVISION = r"^[A-Za-z0-9][A-Za-z0-9._/-]*$"


class Model(Part):
    """Exactly one of hf_id, hf_config and spec."""

    hf_id: Annotated[str, Field(pattern=HF_ID, max_length=96)] | None = Field(
        None,
        description="Repository on the Hugging Face Hub.",
        examples=["deepseek-ai/DeepSeek-V3"],
    )
    revision: Annotated[str, Field(pattern=REVISION, max_length=128)] | None = Field(
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
