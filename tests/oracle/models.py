"""A Hugging Face model from a spec: built, adapted, frozen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy, deepcopy
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoModelForMultimodalLM,
    AutoModelForSequenceClassification,
)
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from tests.oracle.spec import Lora, Spec

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
AUTOCAST = {"autocast": torch.bfloat16, "autocast_fp16": torch.float16}
"""What products are narrowed to, of parameters in fp32."""
FINAL_NORMS = ("norm", "final_layernorm", "final_layer_norm", "ln_f", "norm_f")


@dataclass(slots=True)
class Model:
    """A causal language model and its parts, by what they are."""

    module: Any
    config: Any
    backbone: Any
    """All but the head."""
    reference: Any = None
    """A second model, to whose log-probabilities a loss compares."""

    @property
    def blocks(self) -> Any:
        """The list of decoder layers, whatever wraps them by now."""
        for each in self.backbone.modules():
            if isinstance(each, nn.ModuleList) and any(
                isinstance(part, GradientCheckpointingLayer) for part in each[0].modules()
            ):
                return each
        raise LookupError(f"{self.config.model_type} has no list of decoder layers")

    @property
    def embedding(self) -> Any:
        return self.module.get_input_embeddings()

    @property
    def head(self) -> Any:
        return getattr(self.module, "score", None) or self.module.get_output_embeddings()

    @property
    def final_norm(self) -> Any:
        """The norm before the head."""
        return next(
            getattr(self.backbone, name) for name in FINAL_NORMS if hasattr(self.backbone, name)
        )

    @property
    def tied(self) -> bool:
        return self.embedding.weight is self.head.weight

    def parameters(self) -> list[Any]:
        return list(self.module.parameters())


def build(spec: Spec) -> Model:
    """The model of a spec, in training mode, on the CPU or in fakes."""
    config = AutoConfig.for_model(spec.model_type, **config_of(spec))
    config.get_text_config().use_cache = False
    dtype = DTYPES.get(spec.base_dtype or spec.dtype, torch.float32)
    kernels = {"attn_implementation": "eager" if spec.attn == "eager" else "sdpa"}
    kind = AutoModelForCausalLM
    if spec.images:
        hears = "audio_config" in spec.config
        kind = AutoModelForMultimodalLM if hears else AutoModelForImageTextToText
    if spec.loss == "reward":
        config.num_labels, config.pad_token_id = 1, 0
        kind = AutoModelForSequenceClassification
    module = kind.from_config(config, dtype=dtype, **kernels)
    if module._can_set_experts_implementation():
        module.set_experts_implementation(spec.experts)
    module.train()
    model = Model(module, config, getattr(module.base_model, "language_model", module.base_model))
    for name, parameter in module.named_parameters():
        if any(part in name for part in spec.freeze):
            parameter.requires_grad_(False)
    if spec.lora:
        model.module = with_adapters(module, spec.lora)
    if spec.reference == "copy":
        model.reference = kind.from_config(config, dtype=dtype, **kernels).eval()
        model.reference.requires_grad_(False)
    if spec.virtual_tokens:
        model.module = with_virtual_tokens(module, spec)
    return model


def images_of(model: Model, spec: Spec) -> dict[str, Any]:
    """The images of a micro-batch, as a processor hands them over, or in the model's type where it
    takes no other.
    """
    if not spec.images:
        return {}
    if hasattr(model.config, "audio_config"):
        sound = model.config.audio_config
        frames = 2 * sound.max_source_positions
        return {"input_features": torch.zeros(spec.mbs * spec.images, sound.num_mel_bins, frames)}
    vision = model.config.vision_config
    height, width = planes(vision.image_size)
    shape = spec.mbs * spec.images, vision.num_channels, height, width
    as_is = spec.model_type == "llama4"
    dtype = next(model.module.parameters()).dtype if as_is else torch.float32
    if spec.model_type == "llava_next":
        sizes = [(2 * height, 2 * width)] * shape[0]
        return {"pixel_values": torch.zeros(shape[0], TILES, *shape[1:]), "image_sizes": sizes}
    known = {"image_sizes": [(height, width)] * shape[0]} if spec.model_type == "mistral3" else {}
    return {"pixel_values": torch.zeros(*shape, dtype=dtype), **known}


TILES = 5
"""An image twice as high and as wide as the tower's: in four, and as a whole."""


def planes(size: Any) -> tuple[int, int]:
    """Height and width, which some configs give as one."""
    return (size, size) if isinstance(size, int) else tuple(size)


def config_of(spec: Spec) -> dict[str, Any]:
    """A config.json with the number of layers that the spec asks for."""
    config = dict(spec.config)
    if spec.num_layers:
        names = CONFIG_MAPPING[spec.model_type].attribute_map
        config[names.get("num_hidden_layers", "num_hidden_layers")] = spec.num_layers
        for name in config:
            if name.endswith("layer_types"):
                config[name] = config[name][: spec.num_layers]
    return config


def with_adapters(module: Any, lora: Lora) -> Any:
    """The model with adapters of low rank, its own parameters frozen."""
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=lora.rank,
        lora_alpha=2 * lora.rank,
        lora_dropout=lora.dropout,
        use_dora=lora.decomposed,
        target_modules=lora.targets if lora.targets == "all-linear" else list(lora.targets),
        task_type="SEQ_CLS" if hasattr(module, "score") else "CAUSAL_LM",
    )
    with staying():
        adapted = get_peft_model(module, config, autocast_adapter_dtype=False)
    dtype = torch.float32 if lora.dtype == "fp32" else module.dtype
    for owner in adapted.modules():
        for name, parameter in owner.named_parameters(recurse=False):
            if parameter.requires_grad and parameter.dtype != dtype:
                setattr(owner, name, nn.Parameter(parameter.detach().to(dtype)))
    if lora.input_grads:
        module.enable_input_require_grads()
    return adapted


def with_virtual_tokens(module: Any, spec: Spec) -> Any:
    """The model with trained tokens before each sequence, its own parameters frozen."""
    from peft import PrefixTuningConfig, PromptEncoderConfig, PromptTuningConfig, get_peft_model

    given: dict[str, Any] = {"task_type": "CAUSAL_LM", "num_virtual_tokens": spec.virtual_tokens}
    match spec.virtual_kind:
        case "prompt":
            config = PromptTuningConfig(**given)
        case "prefix" | "projected_prefix":
            projected = spec.virtual_kind == "projected_prefix"
            config = PrefixTuningConfig(**given, prefix_projection=projected)
        case encoder:
            config = PromptEncoderConfig(**given, encoder_reparameterization_type=encoder.upper())
    with staying():
        return get_peft_model(module, config)


@contextmanager
def staying() -> Iterator[None]:
    """Within, modules neither move nor change their type, which fakes do not allow, nor are they
    copied with their mode. What PEFT would convert where it lies is made anew instead.
    """
    with (
        patch.object(nn.Module, "to", lambda moved, *_args, **_kwargs: moved),
        patch.object(nn.Module, "__deepcopy__", made_anew, create=True),
    ):
        yield


def made_anew(module: Any, _memo: Any) -> Any:
    """A module with parameters of its own."""
    copied = copy(module)
    copied._parameters = {
        name: None if each is None else nn.Parameter(each.detach().clone())
        for name, each in module._parameters.items()
    }
    copied._modules = {name: deepcopy(each) for name, each in module._modules.items()}
    return copied
