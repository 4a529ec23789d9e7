"""Which family reads which model_type. A family is imported when one of its types is asked for."""

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from trainfit.architectures.config import (
    Config,
    UnsupportedModelTypeError,
    refused_dimensions,
)
from trainfit.specs.architecture import ModelSpec

FAMILIES: Mapping[str, tuple[str, ...]] = {
    "afmoe": ("afmoe",),
    "apertus": ("apertus",),
    "aria": ("aria_text",),
    "axk": ("axk1", "axk2"),
    "bailing": ("bailing_moe",),
    "bamba": ("bamba", "falcon_h1", "granitemoehybrid"),
    "beam": ("beam",),
    "bitnet": ("bitnet",),
    "bloom": ("bloom", "mpt"),
    "cohere": ("cohere", "cohere2", "cohere_compass_text"),
    "cohere_moe": ("cohere2_moe",),
    "cpmant": ("cpmant",),
    "cwm": ("cwm",),
    "dbrx": ("dbrx",),
    "deepseek": ("deepseek", "deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2"),
    "deepseek_v4": ("deepseek_v4",),
    "diffllama": ("diffllama",),
    "doge": ("doge",),
    "dots": ("dots1",),
    "dots3_note": ("dots3_note_text",),
    "ernie": ("ernie4_5",),
    "ernie_moe": ("ernie4_5_moe",),
    "exaone4": ("exaone4",),
    "exaone_moe": ("exaone_moe",),
    "falcon": ("falcon",),
    "gemma": ("gemma", "gemma2", "gemma3_text", "vaultgemma"),
    "gemma3n": ("gemma3n_text",),
    "gemma4": (
        "gemma4_assistant",
        "gemma4_text",
        "gemma4_unified_assistant",
        "gemma4_unified_text",
    ),
    "glm": ("chatglm", "glm", "glm4"),
    "glm5_next": ("glm5_next_text",),
    "glm_moe": ("glm4_moe", "glm4_moe_lite", "glm_moe_dsa", "solar_open"),
    "gpt2": ("ctrl", "gpt-sw3", "gpt2", "gpt_bigcode", "openai-gpt"),
    "gpt_neo": ("gpt_neo",),
    "gpt_neox": ("gpt_neox", "gpt_neox_japanese", "persimmon"),
    "gpt_oss": ("gpt_oss",),
    "gptj": ("codegen", "gptj"),
    "granite": ("granite", "granite_swa", "hyperclovax"),
    "granite_moe": ("granitemoe", "granitemoe_swa", "granitemoeshared"),
    "helium": ("helium",),
    "hrm_text": ("hrm_text",),
    "hunyuan_dense": ("hunyuan_v1_dense",),
    "hunyuan_moe": ("hunyuan_v1_moe", "hy_v3"),
    "hy_v4": ("hy_v4",),
    "inkling": ("inkling2_text", "inkling_text"),
    "jamba": ("jamba",),
    "jetmoe": ("jetmoe",),
    "kimi_linear": ("bailing_hybrid", "kimi_linear"),
    "laguna": ("laguna",),
    "lfm": ("lfm2", "lfm2_moe", "lfm3"),
    "llama": ("baichuan", "exaone", "internlm2", "internlm3", "iquestcoder", "llama", "xverse"),
    "llama4": ("llama4_text",),
    "longcat": ("longcat_flash",),
    "mamba": ("falcon_mamba", "mamba", "mamba2"),
    "mellum": ("kolibri1", "mellum"),
    "mimo_v2": ("mimo_v2_flash",),
    "minicpm": ("minicpm", "minicpm3"),
    "minimax": ("minimax", "minimax_m2"),
    "minimax_m3": ("minimax_m3_vl_text",),
    "mistral": ("ministral", "ministral3", "mistral"),
    "mistral_moe": ("mistral4", "mistral_large4_text"),
    "mixtral": ("mixtral",),
    "modernbert_decoder": ("modernbert-decoder",),
    "multimodal.asr": ("fun_asr_nano", "moss_transcribe_diarize", "vibevoice_asr"),
    "multimodal.baidu": (
        "ernie4_5_vl_moe",
        "ernie4_5_vl_moe_text",
        "paddleocr_vl",
        "paddleocr_vl_text",
    ),
    "multimodal.blip": ("blip-2", "instructblip", "instructblipvideo"),
    "multimodal.cohere": ("aya_vision", "cohere2_vision"),
    "multimodal.cosmos": ("cosmos3_edge", "cosmos3_edge_text"),
    "multimodal.deepseek_vl": ("deepseek_vl", "deepseek_vl_hybrid"),
    "multimodal.dots": ("dots3_note",),
    "multimodal.gemma": (
        "gemma3",
        "gemma3n",
        "gemma4",
        "gemma4_unified",
        "paligemma",
        "shieldgemma2",
    ),
    "multimodal.glm": (
        "glm46v",
        "glm4v",
        "glm4v_moe",
        "glm4v_moe_text",
        "glm4v_text",
        "glm5_next",
        "glm_ocr",
        "glm_ocr_text",
        "glmasr",
        "glmga",
    ),
    "multimodal.granite": (
        "granite4_vision",
        "granite4_vision_text",
        "granite_docling",
        "granite_docling_text",
        "granite_speech",
        "granite_speech_plus",
    ),
    "multimodal.hunyuan": ("hunyuan_vl", "hunyuan_vl_text"),
    "multimodal.idefics": ("aria", "idefics2", "idefics3", "smolvlm"),
    "multimodal.image_tokens": ("chameleon", "emu3", "emu3_text_model", "fuyu", "janus"),
    "multimodal.inkling": ("inkling2", "inkling_mm_model"),
    "multimodal.internvl": ("internvl", "qianfan_ocr"),
    "multimodal.kimi": ("kimi_k25",),
    "multimodal.lfm": ("lfm2_vl", "lfm3_vl"),
    "multimodal.llama": ("llama4", "mllama", "mllama_text_model"),
    "multimodal.llava": (
        "llava",
        "llava_next",
        "llava_next_video",
        "llava_onevision",
        "video_llava",
        "vipllava",
    ),
    "multimodal.minicpm": ("minicpm_ocr", "minicpmv4_6", "minicpmv4_7"),
    "multimodal.minimax": ("minimax_m3_vl",),
    "multimodal.mistral": ("lighton_ocr", "mistral3", "mistral_large4"),
    "multimodal.molmo": ("molmo2", "molmo2_text"),
    "multimodal.muse": ("muse_glimmer", "muse_glimmer_text", "muse_spark"),
    "multimodal.nemotron": ("nemotron_h_omni",),
    "multimodal.ocr": (
        "deepseek_ocr2",
        "deepseek_ocr2_text",
        "got_ocr2",
        "pp_chart2table",
        "unlimited_ocr",
    ),
    "multimodal.ovis": ("ovis2",),
    "multimodal.phi4": ("phi4_multimodal",),
    "multimodal.qwen_audio": (
        "qwen2_5_omni_text",
        "qwen2_5_omni_thinker",
        "qwen2_audio",
        "qwen3_asr",
        "qwen3_omni_moe_text",
        "qwen3_omni_moe_thinker",
    ),
    "multimodal.qwen_vl": (
        "cohere_compass",
        "cosmos3_omni",
        "exaone4_5",
        "hyperclovax_vision_v2",
        "qwen2_5_vl",
        "qwen2_5_vl_text",
        "qwen2_vl",
        "qwen2_vl_text",
        "qwen3_5",
        "qwen3_5_moe",
        "qwen3_vl",
        "qwen3_vl_moe",
        "qwen3_vl_moe_text",
        "qwen3_vl_text",
        "qwen4_exp",
    ),
    "multimodal.step": ("step3p5", "step3p7"),
    "multimodal.video_llama": ("video_llama_3",),
    "multimodal.voxtral": ("voxtral", "voxtral_realtime", "voxtral_realtime_text"),
    "muse_spark": ("muse_spark_text",),
    "nemotron_h": ("nemotron_h",),
    "olmo": ("olmo", "olmo2", "olmo3"),
    "olmo_hybrid": ("olmo_hybrid",),
    "olmoe": ("flex_olmo", "olmoe"),
    "opt": ("biogpt", "opt", "xglm"),
    "phi": ("phi", "phi3"),
    "phimoe": ("phimoe",),
    "qwen": ("mimo", "qwen", "qwen2", "qwen3"),
    "qwen3_next": ("qwen3_5_moe_text", "qwen3_5_text", "qwen3_next"),
    "qwen4_exp": ("qwen4_exp_text",),
    "qwen_moe": ("flint", "qwen2_moe", "qwen3_moe"),
    "recurrent_gemma": ("recurrent_gemma",),
    "rwkv": ("rwkv",),
    "seed_oss": ("seed_oss",),
    "smollm3": ("smollm3",),
    "squared_relu": ("arcee", "jais2", "nanochat", "nemotron"),
    "stablelm": ("orion", "stablelm"),
    "starcoder2": ("starcoder2",),
    "unlimited_ocr": ("unlimited_ocr_text",),
    "xlstm": ("xlstm",),
    "youtu": ("youtu",),
    "zamba": ("zamba", "zamba2"),
    "zaya": ("zaya",),
}
"""Module -> the model types that its `PARSERS` reads."""


@cache
def _modules() -> Mapping[str, str]:
    return {model_type: module for module, types in FAMILIES.items() for model_type in types}


def supported_model_types() -> tuple[str, ...]:
    """Every model_type that a config.json may name, sorted."""
    return tuple(sorted(_modules()))


def parser_of(model_type: str, path: str = "") -> Callable[[Config], ModelSpec]:
    """What reads a config.json, or the section at `path` of one, of this type."""
    module = _modules().get(model_type)
    if module is None:
        raise UnsupportedModelTypeError(model_type, path)
    parsers: Mapping[str, Callable[[Config], ModelSpec]] = import_module(
        f"trainfit.architectures.{module}"
    ).PARSERS
    return parsers[model_type]


def parse_config(values: Mapping[str, Any], name: str | None = None) -> ModelSpec:
    """A config.json as a ModelSpec.

    Raises UnsupportedModelTypeError for a type that no family reads, ConfigError for a key that
    is missing, of a wrong type or out of bounds.
    """
    config = Config(values)
    parser = parser_of(config.str("model_type"))
    with refused_dimensions():
        spec = parser(config)
    return spec if name is None else spec.model_copy(update={"name": name})
