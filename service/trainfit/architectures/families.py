"""What is known of each model_type: who reads its config.json, and what its class computes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from trainfit.specs.architecture import Implementation


@dataclass(frozen=True, slots=True)
class Family:
    """What is known of the models of one model_type. Defaults are those of its configuration class
    in transformers 5.23, for keys that a config.json leaves out.
    """

    reader: str
    """The module whose `PARSERS` reads the dimensions."""
    implementation: Implementation | None
    """What the modelling class computes; None where the text section's own type says so."""
    activation: str = "silu"
    """`hidden_act` and the like: of feed-forward networks and experts."""
    drops: tuple[Literal["attention", "hidden"], ...] = ()
    """Where the class drops out with a probability of 0.1."""
    softcaps: tuple[Literal["attention", "logits"], ...] = ()
    """Which of `attn_logit_softcapping` and `final_logit_softcapping` the class sets."""


AS_LLAMA = Implementation()
"""A modelling class that computes as Llama's does."""
OF_ITS_TEXT = None
"""A composite computes as the type of its text section does."""

FAMILIES: Mapping[str, Family] = {
    "afmoe": Family(
        "afmoe", Implementation(gate_projection="gate_proj", norm_scale_dtype="fp32", ep_plan=True)
    ),
    "apertus": Family("apertus", Implementation(tp_plan=True), activation="xielu"),
    "arcee": Family("squared_relu", Implementation(tp_plan=True), activation="relu2"),
    "aria": Family("multimodal.idefics", OF_ITS_TEXT),
    "aria_text": Family("aria", Implementation(ep_plan=True)),
    "axk1": Family("axk", Implementation(router_dtype="fp32", ep_plan=True)),
    "axk2": Family("axk", Implementation(partial_rotary=True, router_dtype="fp32", ep_plan=True)),
    "aya_vision": Family("multimodal.cohere", OF_ITS_TEXT),
    "baichuan": Family("llama", AS_LLAMA),
    "bailing_hybrid": Family("kimi_linear", Implementation(router_dtype="fp32", ep_plan=True)),
    "bailing_moe": Family("bailing", AS_LLAMA),
    "bamba": Family("bamba", Implementation(partial_rotary=True)),
    "beam": Family(
        "beam",
        Implementation(
            gate_projection="gate_proj", norm_scale_dtype="fp32", router_dtype="fp32", ep_plan=True
        ),
    ),
    "biogpt": Family(
        "opt",
        Implementation(softmax_dtype="input"),
        activation="gelu",
        drops=("attention", "hidden"),
    ),
    "bitnet": Family("bitnet", AS_LLAMA, activation="relu2"),
    "blip-2": Family("multimodal.blip", OF_ITS_TEXT),
    "bloom": Family("bloom", Implementation(packed_qkv=True), activation="gelu"),
    "chameleon": Family("multimodal.image_tokens", AS_LLAMA),
    "chatglm": Family("glm", AS_LLAMA),
    "codegen": Family(
        "gptj", Implementation(packed_qkv=True, partial_rotary=True), activation="gelu_new"
    ),
    "cohere": Family("cohere", Implementation(layer_norm="written_out", tp_plan=True)),
    "cohere2": Family("cohere", Implementation(layer_norm="written_out", tp_plan=True)),
    "cohere2_moe": Family("cohere_moe", Implementation(ep_plan=True)),
    "cohere2_vision": Family("multimodal.cohere", OF_ITS_TEXT),
    "cohere_compass": Family("multimodal.qwen_vl", OF_ITS_TEXT),
    "cohere_compass_text": Family("cohere", AS_LLAMA),
    "cosmos3_edge": Family("multimodal.cosmos", OF_ITS_TEXT),
    "cosmos3_edge_text": Family("multimodal.cosmos", AS_LLAMA),
    "cosmos3_omni": Family("multimodal.qwen_vl", OF_ITS_TEXT),
    "cpmant": Family("cpmant", AS_LLAMA),
    "ctrl": Family("gpt2", AS_LLAMA, drops=("hidden",)),
    "cwm": Family("cwm", Implementation(tp_plan=True)),
    "dbrx": Family("dbrx", Implementation(packed_qkv=True)),
    "deepseek": Family("deepseek", AS_LLAMA),
    "deepseek_ocr2": Family("multimodal.ocr", OF_ITS_TEXT),
    "deepseek_ocr2_text": Family("multimodal.ocr", AS_LLAMA),
    "deepseek_v2": Family("deepseek", Implementation(router_dtype="fp32", ep_plan=True)),
    "deepseek_v3": Family("deepseek", Implementation(router_dtype="fp32", ep_plan=True)),
    "deepseek_v32": Family("deepseek", Implementation(router_dtype="fp32", ep_plan=True)),
    "deepseek_v4": Family(
        "deepseek_v4", Implementation(softmax_dtype="input", norm_scale_dtype="fp32")
    ),
    "deepseek_vl": Family("multimodal.deepseek_vl", OF_ITS_TEXT),
    "deepseek_vl_hybrid": Family("multimodal.deepseek_vl", OF_ITS_TEXT),
    "diffllama": Family("diffllama", AS_LLAMA),
    "doge": Family("doge", AS_LLAMA),
    "dots1": Family("dots", Implementation(router_dtype="fp32", ep_plan=True)),
    "dots3_note": Family("multimodal.dots", OF_ITS_TEXT),
    "dots3_note_text": Family(
        "dots3_note", Implementation(partial_rotary=True, router_dtype="fp32", ep_plan=True)
    ),
    "emu3": Family("multimodal.image_tokens", OF_ITS_TEXT),
    "emu3_text_model": Family("multimodal.image_tokens", AS_LLAMA, drops=("attention",)),
    "ernie4_5": Family("ernie", Implementation(tp_plan=True)),
    "ernie4_5_moe": Family("ernie_moe", Implementation(router_dtype="fp32", ep_plan=True)),
    "ernie4_5_vl_moe": Family("multimodal.baidu", OF_ITS_TEXT),
    "ernie4_5_vl_moe_text": Family("multimodal.baidu", Implementation(ep_plan=True)),
    "exaone": Family("llama", AS_LLAMA),
    "exaone4": Family("exaone4", Implementation(tp_plan=True)),
    "exaone4_5": Family("multimodal.qwen_vl", OF_ITS_TEXT),
    "exaone_moe": Family("exaone_moe", Implementation(router_dtype="fp32", ep_plan=True)),
    "falcon": Family(
        "falcon", Implementation(packed_qkv=True, always_masks=True), activation="gelu"
    ),
    "falcon_h1": Family("bamba", AS_LLAMA),
    "falcon_mamba": Family("mamba", AS_LLAMA),
    "flex_olmo": Family("olmoe", Implementation(norm_scale_dtype="fp32", ep_plan=True)),
    "flint": Family(
        "qwen_moe", Implementation(norm_scale_dtype="fp32", router_dtype="fp32", ep_plan=True)
    ),
    "fun_asr_nano": Family("multimodal.asr", OF_ITS_TEXT),
    "fuyu": Family("multimodal.image_tokens", OF_ITS_TEXT),
    "gemma": Family(
        "gemma",
        Implementation(norm_scale_dtype="fp32", tp_plan=True),
        activation="gelu_pytorch_tanh",
    ),
    "gemma2": Family(
        "gemma",
        Implementation(norm_scale_dtype="fp32", tp_plan=True),
        activation="gelu_pytorch_tanh",
        softcaps=("attention", "logits"),
    ),
    "gemma3": Family("multimodal.gemma", OF_ITS_TEXT),
    "gemma3_text": Family(
        "gemma",
        Implementation(norm_scale_dtype="fp32", tp_plan=True),
        activation="gelu_pytorch_tanh",
    ),
    "gemma3n": Family("multimodal.gemma", OF_ITS_TEXT),
    "gemma3n_text": Family(
        "gemma3n",
        Implementation(norm_scale_dtype="fp32"),
        activation="gelu_pytorch_tanh",
        softcaps=("logits",),
    ),
    "gemma4": Family("multimodal.gemma", OF_ITS_TEXT),
    "gemma4_assistant": Family("gemma4", OF_ITS_TEXT),
    "gemma4_text": Family(
        "gemma4", Implementation(norm_scale_dtype="fp32"), activation="gelu_pytorch_tanh"
    ),
    "gemma4_unified": Family("multimodal.gemma", OF_ITS_TEXT),
    "gemma4_unified_assistant": Family("gemma4", OF_ITS_TEXT),
    "gemma4_unified_text": Family("gemma4", AS_LLAMA),
    "glm": Family("glm", Implementation(partial_rotary=True)),
    "glm4": Family("glm", Implementation(partial_rotary=True)),
    "glm46v": Family("multimodal.glm", OF_ITS_TEXT),
    "glm4_moe": Family(
        "glm_moe", Implementation(partial_rotary=True, router_dtype="fp32", ep_plan=True)
    ),
    "glm4_moe_lite": Family("glm_moe", Implementation(router_dtype="fp32", ep_plan=True)),
    "glm4v": Family("multimodal.glm", OF_ITS_TEXT),
    "glm4v_moe": Family("multimodal.glm", OF_ITS_TEXT),
    "glm4v_moe_text": Family("multimodal.glm", Implementation(ep_plan=True)),
    "glm4v_text": Family("multimodal.glm", AS_LLAMA),
    "glm5_next": Family("multimodal.glm", OF_ITS_TEXT),
    "glm5_next_text": Family("glm5_next", Implementation(router_dtype="fp32", ep_plan=True)),
    "glm_moe_dsa": Family("glm_moe", Implementation(router_dtype="fp32", ep_plan=True)),
    "glm_ocr": Family("multimodal.glm", OF_ITS_TEXT),
    "glm_ocr_text": Family("multimodal.glm", Implementation(partial_rotary=True)),
    "glmasr": Family("multimodal.glm", OF_ITS_TEXT),
    "glmga": Family("multimodal.glm", OF_ITS_TEXT),
    "got_ocr2": Family("multimodal.ocr", OF_ITS_TEXT),
    "gpt-sw3": Family(
        "gpt2",
        Implementation(packed_qkv=True),
        activation="gelu_new",
        drops=("attention", "hidden"),
    ),
    "gpt2": Family(
        "gpt2",
        Implementation(packed_qkv=True, softmax_dtype="input"),
        activation="gelu_new",
        drops=("attention", "hidden"),
    ),
    "gpt_bigcode": Family(
        "gpt2",
        Implementation(packed_qkv=True),
        activation="gelu_pytorch_tanh",
        drops=("attention", "hidden"),
    ),
    "gpt_neo": Family("gpt_neo", AS_LLAMA, activation="gelu_new"),
    "gpt_neox": Family(
        "gpt_neox", Implementation(packed_qkv=True, partial_rotary=True), activation="gelu"
    ),
    "gpt_neox_japanese": Family(
        "gpt_neox",
        Implementation(packed_qkv=True, partial_rotary=True),
        activation="gelu",
        drops=("attention",),
    ),
    "gpt_oss": Family(
        "gpt_oss",
        Implementation(
            softmax_dtype="input",
            norm_scale_dtype="fp32",
            experts_activation="clamped_swiglu",
            ep_plan=True,
        ),
    ),
    "gptj": Family("gptj", Implementation(partial_rotary=True), activation="gelu_new"),
    "granite": Family("granite", Implementation(tp_plan=True)),
    "granite4_vision": Family("multimodal.granite", OF_ITS_TEXT),
    "granite4_vision_text": Family("multimodal.granite", AS_LLAMA),
    "granite_docling": Family("multimodal.granite", OF_ITS_TEXT),
    "granite_docling_text": Family("multimodal.granite", AS_LLAMA),
    "granite_speech": Family("multimodal.granite", OF_ITS_TEXT),
    "granite_speech_plus": Family("multimodal.granite", OF_ITS_TEXT),
    "granite_swa": Family("granite", AS_LLAMA),
    "granitemoe": Family("granite_moe", Implementation(router_dtype="fp32", ep_plan=True)),
    "granitemoe_swa": Family("granite_moe", Implementation(router_dtype="fp32", ep_plan=True)),
    "granitemoehybrid": Family("bamba", Implementation(router_dtype="fp32", ep_plan=True)),
    "granitemoeshared": Family("granite_moe", Implementation(router_dtype="fp32", ep_plan=True)),
    "helium": Family("helium", Implementation(norm_scale_dtype="fp32", tp_plan=True)),
    "hrm_text": Family("hrm_text", Implementation(gate_projection="gate_proj")),
    "hunyuan_v1_dense": Family("hunyuan_dense", AS_LLAMA),
    "hunyuan_v1_moe": Family("hunyuan_moe", Implementation(ep_plan=True)),
    "hunyuan_vl": Family("multimodal.hunyuan", OF_ITS_TEXT),
    "hunyuan_vl_text": Family("multimodal.hunyuan", AS_LLAMA),
    "hy_v3": Family("hunyuan_moe", Implementation(router_dtype="fp32", ep_plan=True)),
    "hy_v4": Family(
        "hy_v4", Implementation(softmax_dtype="input", router_dtype="fp32", ep_plan=True)
    ),
    "hyperclovax": Family("granite", AS_LLAMA),
    "hyperclovax_vision_v2": Family("multimodal.qwen_vl", OF_ITS_TEXT),
    "idefics2": Family("multimodal.idefics", OF_ITS_TEXT),
    "idefics3": Family("multimodal.idefics", OF_ITS_TEXT),
    "inkling2": Family("multimodal.inkling", OF_ITS_TEXT),
    "inkling2_text": Family(
        "inkling", Implementation(norm_scale_dtype="fp32"), softcaps=("logits",)
    ),
    "inkling_mm_model": Family("multimodal.inkling", OF_ITS_TEXT),
    "inkling_text": Family("inkling", Implementation(router_dtype="fp32", ep_plan=True)),
    "instructblip": Family("multimodal.blip", OF_ITS_TEXT),
    "instructblipvideo": Family("multimodal.blip", OF_ITS_TEXT),
    "internlm2": Family("llama", AS_LLAMA),
    "internlm3": Family("llama", AS_LLAMA),
    "internvl": Family("multimodal.internvl", OF_ITS_TEXT),
    "iquestcoder": Family("llama", AS_LLAMA),
    "jais2": Family("squared_relu", AS_LLAMA, activation="relu2"),
    "jamba": Family("jamba", Implementation(ep_plan=True)),
    "janus": Family("multimodal.image_tokens", OF_ITS_TEXT),
    "jetmoe": Family("jetmoe", AS_LLAMA),
    "kimi_k2": Family("deepseek", Implementation(router_dtype="fp32")),
    "kimi_k25": Family("multimodal.kimi", OF_ITS_TEXT),
    "kimi_linear": Family("kimi_linear", Implementation(router_dtype="fp32", ep_plan=True)),
    "kolibri1": Family("mellum", Implementation(router_dtype="fp32", ep_plan=True)),
    "laguna": Family(
        "laguna",
        Implementation(
            partial_rotary=True, gate_activation="softplus", router_dtype="fp32", ep_plan=True
        ),
    ),
    "lfm2": Family("lfm", AS_LLAMA),
    "lfm2_moe": Family("lfm", Implementation(ep_plan=True)),
    "lfm2_vl": Family("multimodal.lfm", OF_ITS_TEXT),
    "lfm3": Family("lfm", AS_LLAMA),
    "lfm3_vl": Family("multimodal.lfm", OF_ITS_TEXT),
    "lighton_ocr": Family("multimodal.mistral", OF_ITS_TEXT),
    "llama": Family("llama", Implementation(tp_plan=True)),
    "llama4": Family("multimodal.llama", OF_ITS_TEXT),
    "llama4_text": Family("llama4", Implementation(softmax_dtype="input")),
    "llava": Family("multimodal.llava", OF_ITS_TEXT),
    "llava_next": Family("multimodal.llava", OF_ITS_TEXT),
    "llava_next_video": Family("multimodal.llava", OF_ITS_TEXT),
    "llava_onevision": Family("multimodal.llava", OF_ITS_TEXT),
    "longcat_flash": Family("longcat", Implementation(router_dtype="fp32")),
    "mamba": Family("mamba", AS_LLAMA),
    "mamba2": Family("mamba", AS_LLAMA),
    "mellum": Family("mellum", Implementation(ep_plan=True)),
    "mimo": Family("qwen", AS_LLAMA),
    "mimo_v2_flash": Family(
        "mimo_v2",
        Implementation(
            partial_rotary=True, softmax_dtype="input", router_dtype="fp32", ep_plan=True
        ),
    ),
    "minicpm": Family("minicpm", AS_LLAMA),
    "minicpm3": Family("minicpm", AS_LLAMA),
    "minicpm_ocr": Family("multimodal.minicpm", OF_ITS_TEXT),
    "minicpmv4_6": Family("multimodal.minicpm", OF_ITS_TEXT),
    "minicpmv4_7": Family("multimodal.minicpm", OF_ITS_TEXT),
    "minimax": Family("minimax", Implementation(ep_plan=True)),
    "minimax_m2": Family("minimax", Implementation(partial_rotary=True, ep_plan=True)),
    "minimax_m3_vl": Family("multimodal.minimax", OF_ITS_TEXT),
    "minimax_m3_vl_text": Family(
        "minimax_m3", Implementation(partial_rotary=True, norm_scale_dtype="fp32")
    ),
    "ministral": Family("mistral", Implementation(tp_plan=True)),
    "ministral3": Family("mistral", Implementation(tp_plan=True)),
    "mistral": Family("mistral", Implementation(tp_plan=True)),
    "mistral3": Family("multimodal.mistral", OF_ITS_TEXT),
    "mistral4": Family("mistral_moe", Implementation(ep_plan=True)),
    "mistral_large4": Family("multimodal.mistral", OF_ITS_TEXT),
    "mistral_large4_text": Family(
        "mistral_moe",
        Implementation(partial_rotary=True, router_dtype="fp32", ep_plan=True),
        softcaps=("logits",),
    ),
    "mixtral": Family("mixtral", Implementation(ep_plan=True)),
    "mllama": Family("multimodal.llama", OF_ITS_TEXT),
    "mllama_text_model": Family("multimodal.llama", AS_LLAMA),
    "modernbert-decoder": Family("modernbert_decoder", AS_LLAMA, activation="gelu"),
    "molmo2": Family("multimodal.molmo", OF_ITS_TEXT),
    "molmo2_text": Family("multimodal.molmo", AS_LLAMA),
    "moss_transcribe_diarize": Family("multimodal.asr", OF_ITS_TEXT),
    "mpt": Family("bloom", Implementation(packed_qkv=True), activation="gelu"),
    "muse_glimmer": Family("multimodal.muse", OF_ITS_TEXT),
    "muse_glimmer_text": Family(
        "multimodal.muse", Implementation(norm_scale_dtype="fp32"), softcaps=("logits",)
    ),
    "muse_spark": Family("multimodal.muse", OF_ITS_TEXT),
    "muse_spark_text": Family(
        "muse_spark",
        Implementation(
            gate_projection="gate_proj", norm_scale_dtype="fp32", router_dtype="fp32", ep_plan=True
        ),
        softcaps=("logits",),
    ),
    "nanochat": Family("squared_relu", AS_LLAMA, activation="relu2", softcaps=("logits",)),
    "nemotron": Family(
        "squared_relu", Implementation(partial_rotary=True, tp_plan=True), activation="relu2"
    ),
    "nemotron_h": Family(
        "nemotron_h",
        Implementation(norm_scale_dtype="fp32", router_dtype="fp32", ep_plan=True),
        activation="relu2",
    ),
    "nemotron_h_omni": Family("multimodal.nemotron", OF_ITS_TEXT),
    "olmo": Family("olmo", Implementation(layer_norm="kernel_in_fp32", tp_plan=True)),
    "olmo2": Family("olmo", Implementation(norm_scale_dtype="fp32")),
    "olmo3": Family("olmo", Implementation(norm_scale_dtype="fp32")),
    "olmo_hybrid": Family("olmo_hybrid", Implementation(norm_scale_dtype="fp32")),
    "olmoe": Family("olmoe", Implementation(ep_plan=True)),
    "openai-gpt": Family(
        "gpt2", Implementation(packed_qkv=True), activation="gelu", drops=("attention", "hidden")
    ),
    "opt": Family("opt", AS_LLAMA, activation="relu", drops=("hidden",)),
    "orion": Family("stablelm", AS_LLAMA),
    "ovis2": Family("multimodal.ovis", OF_ITS_TEXT),
    "paddleocr_vl": Family("multimodal.baidu", OF_ITS_TEXT),
    "paddleocr_vl_text": Family("multimodal.baidu", AS_LLAMA),
    "paligemma": Family("multimodal.gemma", OF_ITS_TEXT),
    "persimmon": Family(
        "gpt_neox", Implementation(packed_qkv=True, partial_rotary=True), activation="relu2"
    ),
    "phi": Family("phi", Implementation(partial_rotary=True), activation="gelu_new"),
    "phi3": Family("phi", Implementation(packed_qkv=True, partial_rotary=True)),
    "phi4_multimodal": Family(
        "multimodal.phi4", Implementation(packed_qkv=True, partial_rotary=True)
    ),
    "phimoe": Family("phimoe", Implementation(ep_plan=True)),
    "pp_chart2table": Family("multimodal.ocr", OF_ITS_TEXT),
    "qianfan_ocr": Family("multimodal.internvl", OF_ITS_TEXT),
    "qwen": Family("qwen", AS_LLAMA),
    "qwen2": Family("qwen", Implementation(tp_plan=True)),
    "qwen2_5_omni_text": Family("multimodal.qwen_audio", AS_LLAMA),
    "qwen2_5_omni_thinker": Family("multimodal.qwen_audio", OF_ITS_TEXT),
    "qwen2_5_vl": Family("multimodal.qwen_vl", OF_ITS_TEXT),
    "qwen2_5_vl_text": Family("multimodal.qwen_vl", AS_LLAMA),
    "qwen2_audio": Family("multimodal.qwen_audio", OF_ITS_TEXT),
    "qwen2_moe": Family("qwen_moe", Implementation(ep_plan=True)),
    "qwen2_vl": Family("multimodal.qwen_vl", OF_ITS_TEXT),
    "qwen2_vl_text": Family("multimodal.qwen_vl", AS_LLAMA),
    "qwen3": Family("qwen", Implementation(tp_plan=True)),
    "qwen3_5": Family("multimodal.qwen_vl", OF_ITS_TEXT),
    "qwen3_5_moe": Family("multimodal.qwen_vl", OF_ITS_TEXT),
    "qwen3_5_moe_text": Family(
        "qwen3_next",
        Implementation(
            partial_rotary=True, gate_projection="q_proj", norm_scale_dtype="fp32", ep_plan=True
        ),
    ),
    "qwen3_5_text": Family(
        "qwen3_next",
        Implementation(partial_rotary=True, gate_projection="q_proj", norm_scale_dtype="fp32"),
    ),
    "qwen3_asr": Family("multimodal.qwen_audio", OF_ITS_TEXT),
    "qwen3_moe": Family("qwen_moe", Implementation(ep_plan=True)),
    "qwen3_next": Family(
        "qwen3_next",
        Implementation(
            partial_rotary=True, gate_projection="q_proj", norm_scale_dtype="fp32", ep_plan=True
        ),
    ),
    "qwen3_omni_moe_text": Family("multimodal.qwen_audio", Implementation(ep_plan=True)),
    "qwen3_omni_moe_thinker": Family("multimodal.qwen_audio", OF_ITS_TEXT),
    "qwen3_vl": Family("multimodal.qwen_vl", OF_ITS_TEXT),
    "qwen3_vl_moe": Family("multimodal.qwen_vl", OF_ITS_TEXT),
    "qwen3_vl_moe_text": Family("multimodal.qwen_vl", Implementation(ep_plan=True)),
    "qwen3_vl_text": Family("multimodal.qwen_vl", AS_LLAMA),
    "qwen4_exp": Family("multimodal.qwen_vl", OF_ITS_TEXT),
    "qwen4_exp_text": Family("qwen4_exp", Implementation(norm_scale_dtype="fp32", ep_plan=True)),
    "recurrent_gemma": Family(
        "recurrent_gemma",
        Implementation(partial_rotary=True, norm_scale_dtype="fp32"),
        activation="gelu_pytorch_tanh",
    ),
    "rwkv": Family("rwkv", AS_LLAMA),
    "seed_oss": Family("seed_oss", Implementation(tp_plan=True), drops=("attention", "hidden")),
    "shieldgemma2": Family("multimodal.gemma", OF_ITS_TEXT),
    "smollm3": Family("smollm3", Implementation(tp_plan=True)),
    "smolvlm": Family("multimodal.idefics", OF_ITS_TEXT),
    "solar_open": Family("glm_moe", Implementation(router_dtype="fp32", ep_plan=True)),
    "stablelm": Family("stablelm", Implementation(partial_rotary=True)),
    "starcoder2": Family("starcoder2", AS_LLAMA, activation="gelu_pytorch_tanh"),
    "step3p5": Family(
        "multimodal.step", Implementation(partial_rotary=True, norm_scale_dtype="fp32")
    ),
    "step3p7": Family("multimodal.step", OF_ITS_TEXT),
    "unlimited_ocr": Family("multimodal.ocr", OF_ITS_TEXT),
    "unlimited_ocr_text": Family("unlimited_ocr", AS_LLAMA),
    "vaultgemma": Family(
        "gemma",
        Implementation(norm_scale_dtype="fp32"),
        activation="gelu_pytorch_tanh",
        softcaps=("attention", "logits"),
    ),
    "vibevoice_asr": Family("multimodal.asr", OF_ITS_TEXT),
    "video_llama_3": Family("multimodal.video_llama", OF_ITS_TEXT),
    "video_llava": Family("multimodal.llava", OF_ITS_TEXT),
    "vipllava": Family("multimodal.llava", OF_ITS_TEXT),
    "voxtral": Family("multimodal.voxtral", OF_ITS_TEXT),
    "voxtral_realtime": Family("multimodal.voxtral", OF_ITS_TEXT),
    "voxtral_realtime_text": Family("multimodal.voxtral", AS_LLAMA),
    "xglm": Family("opt", AS_LLAMA, activation="gelu", drops=("attention", "hidden")),
    "xlstm": Family("xlstm", AS_LLAMA),
    "xverse": Family("llama", AS_LLAMA),
    "youtu": Family("youtu", AS_LLAMA),
    "zamba": Family("zamba", AS_LLAMA, activation="gelu"),
    "zamba2": Family("zamba", AS_LLAMA, activation="gelu"),
    "zaya": Family("zaya", Implementation(partial_rotary=True, ep_plan=True)),
}
"""Every model_type that a config.json, or a section of one, may name."""


def family_of(model_type: object) -> Family:
    """What is known of a type; of one that is not among them, that it is like Llama."""
    named = FAMILIES.get(model_type) if isinstance(model_type, str) else None
    return named or FAMILIES["llama"]


def implementation_of(model_type: str) -> Implementation:
    """What computes a decoder of this type. Raises LookupError where the table does not say."""
    stated = family_of(model_type).implementation
    if stated is None:
        raise LookupError(f"{model_type} builds a decoder: state its implementation")
    return stated
