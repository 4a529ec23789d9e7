"""What is known of each model_type: who reads its config.json, and what its class computes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from trainfit.architectures.vocabulary import (
    ALIKE,
    ATTENTION_BIAS,
    LLAMA_7B,
    MLP_BIAS,
    ConfigSwitch,
    Decoder,
    Moe,
    Windows,
    dims,
)
from trainfit.specs.architecture import Implementation


@dataclass(frozen=True, slots=True)
class Family:
    """What is known of the models of one model_type. Defaults are those of its configuration class
    in transformers 5.23, for keys that a config.json leaves out.
    """

    dimensions: Decoder | str
    """Said in the shared vocabulary; where a family truly differs, the module whose `PARSERS` reads
    them."""
    implementation: Implementation | None
    """What the modelling class computes; None where the text section's own type says so."""
    activation: str = "silu"
    """`hidden_act` and the like: of feed-forward networks and experts."""
    drops: tuple[Literal["attention", "hidden"], ...] = ()
    """Where the class drops out with a probability of 0.1."""
    softcaps: tuple[Literal["attention", "logits"], ...] = ()
    """Which of `attn_logit_softcapping` and `final_logit_softcapping` the class sets."""
    scales_embeddings: bool = False
    """Whether the class multiplies embeddings with a number of its configuration, though it be 1.
    """


AS_LLAMA = Implementation()
"""A modelling class that computes as Llama's does."""
OF_ITS_TEXT = None
"""A composite computes as the type of its text section does."""

MISTRAL_7B = dims(
    vocab=32000, hidden=4096, ffn=14336, layers=32, heads=32, groups=8, sliding_window=4096
)
OLMO_7B = dims(vocab=50304, hidden=4096, ffn=11008, layers=32, heads=32)
GEMMA2_2B = dims(
    vocab=256000,
    hidden=2304,
    ffn=9216,
    layers=26,
    heads=8,
    groups=4,
    head_dim=256,
    sliding_window=4096,
)
COMMAND_R = dims(vocab=256000, hidden=8192, ffn=22528, layers=40, heads=64)
GRANITE_MOE = dims(
    vocab=32000,
    hidden=4096,
    ffn=11008,
    layers=32,
    heads=32,
    num_local_experts=8,
    num_experts_per_tok=2,
    sliding_window=128,
)
DEEPSEEK_LATENT = {
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
}
EXAONE_WINDOWS = Windows(period_key="sliding_window_pattern", nullable=True, spelt=True)
WIDE_EXPERTS = Moe(count="num_local_experts", width="intermediate_size")
DEEPSEEK_EXPERTS = Moe(
    count="n_routed_experts",
    shared_count="n_shared_experts",
    nullable=True,
    dense="first_k_dense_replace",
)
DEEPSEEK_V3 = Decoder(
    dims=dims(
        vocab=129280,
        hidden=7168,
        ffn=18432,
        layers=61,
        heads=128,
        q_lora_rank=1536,
        **DEEPSEEK_LATENT,
        moe_intermediate_size=2048,
        n_routed_experts=256,
        n_shared_experts=1,
        num_experts_per_tok=8,
        first_k_dense_replace=3,
    ),
    aliases={"num_local_experts": "n_routed_experts"},
    attention="latent",
    mlp_bias=False,
    experts=DEEPSEEK_EXPERTS,
)
ERNIE4_5 = Decoder(
    dims=dims(vocab=103424, hidden=1024, ffn=3072, layers=18, heads=16, groups=2, head_dim=128),
    tied=True,
    qkv_bias=ConfigSwitch("use_bias"),
    out_bias=ConfigSwitch("use_bias"),
    mlp_bias=ConfigSwitch("use_bias"),
)
GLM4 = Decoder(
    dims=dims(vocab=151552, hidden=4096, ffn=13696, layers=40, heads=32, groups=2, head_dim=128),
    norms="around",
    qkv_bias=ConfigSwitch("attention_bias", True),
    out_bias=False,
    mlp_bias=False,
)
GLM4_MOE = Decoder(
    dims=dims(
        vocab=151552,
        hidden=4096,
        ffn=10944,
        layers=46,
        heads=96,
        groups=8,
        moe_intermediate_size=1408,
        n_routed_experts=128,
        n_shared_experts=1,
        num_experts_per_tok=8,
        first_k_dense_replace=1,
    ),
    aliases={"num_local_experts": "n_routed_experts"},
    out_bias=False,
    qk_norm="head",
    qk_norm_key=ConfigSwitch("use_qk_norm"),
    mlp_bias=False,
    experts=DEEPSEEK_EXPERTS,
)
HUNYUAN = Decoder(dims={**LLAMA_7B, "vocab_size": 290943}, qk_norm="head", mlp_bias=False)
QWEN_SIZES = dims(
    vocab=151936,
    hidden=4096,
    ffn=22016,
    layers=32,
    heads=32,
    groups=32,
    sliding_window=4096,
    max_window_layers=28,
)
QWEN2 = Decoder(
    dims=QWEN_SIZES,
    qkv_bias=True,
    out_bias=False,
    mlp_bias=False,
    windows=Windows(slides="late", switch=ConfigSwitch("use_sliding_window")),
)
QWEN2_VL = replace(
    QWEN2,
    dims=dims(
        vocab=152064,
        hidden=8192,
        ffn=29568,
        layers=80,
        heads=64,
        groups=8,
        sliding_window=4096,
        max_window_layers=80,
    ),
    fixed={"head_dim": None},
)
QWEN3 = replace(
    QWEN2,
    dims={**QWEN_SIZES, "head_dim": 128},
    qkv_bias=ATTENTION_BIAS,
    out_bias=ATTENTION_BIAS,
    qk_norm="head",
)

FAMILIES: Mapping[str, Family] = {
    "afmoe": Family(
        Decoder(
            dims=dims(
                vocab=200192,
                hidden=2048,
                ffn=6144,
                layers=32,
                heads=16,
                head_dim=128,
                moe_intermediate_size=1408,
                num_experts=64,
                num_experts_per_tok=6,
                num_shared_experts=2,
                num_dense_layers=1,
                sliding_window=1024,
                global_attn_every_n_layers=4,
            ),
            norms="around",
            qk_norm="head",
            gate="feature",
            rope="in_windows",
            mlp_bias=False,
            windows=Windows(period_key="global_attn_every_n_layers"),
            experts=Moe(
                shared_count="num_shared_experts", dense="num_dense_layers", correction_bias=True
            ),
        ),
        Implementation(gate_projection="gate_proj", norm_scale_dtype="fp32", ep_plan=True),
    ),
    "apertus": Family("apertus", Implementation(tp_plan=True), activation="xielu"),
    "arcee": Family(
        Decoder(dims=dims(vocab=32000, hidden=2560, ffn=18432, layers=32, heads=32), mlp="plain"),
        Implementation(tp_plan=True),
        activation="relu2",
    ),
    "aria": Family("multimodal.idefics", OF_ITS_TEXT),
    "aria_text": Family(
        Decoder(
            dims=dims(
                vocab=32000,
                hidden=4096,
                ffn=4096,
                layers=32,
                heads=32,
                moe_num_experts=8,
                moe_topk=2,
                moe_num_shared_experts=2,
            ),
            experts=Moe(
                count="moe_num_experts",
                width="intermediate_size",
                top_k="moe_topk",
                shared_count="moe_num_shared_experts",
                shared_bias=MLP_BIAS,
            ),
        ),
        Implementation(ep_plan=True),
    ),
    "axk1": Family("axk", Implementation(router_dtype="fp32", ep_plan=True)),
    "axk2": Family("axk", Implementation(partial_rotary=True, router_dtype="fp32", ep_plan=True)),
    "aya_vision": Family("multimodal.cohere", OF_ITS_TEXT),
    "baichuan": Family(Decoder(dims={**LLAMA_7B, "vocab_size": 64000}), AS_LLAMA),
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
    "chatglm": Family("chatglm", AS_LLAMA),
    "codegen": Family(
        "gptj", Implementation(packed_qkv=True, partial_rotary=True), activation="gelu_new"
    ),
    "cohere": Family(
        Decoder(
            dims=COMMAND_R,
            tied=True,
            norm="layer_unbiased",
            norms="shared",
            qk_norm="each_head",
            qk_norm_key=ConfigSwitch("use_qk_norm"),
            mlp_bias=False,
        ),
        Implementation(layer_norm="written_out", tp_plan=True),
    ),
    "cohere2": Family(
        Decoder(
            dims={**COMMAND_R, "sliding_window": 4096},
            tied=True,
            norm="layer_unbiased",
            norms="shared",
            rope="in_windows",
            mlp_bias=False,
            windows=Windows(period_key="sliding_window_pattern", nullable=True),
        ),
        Implementation(layer_norm="written_out", tp_plan=True),
    ),
    "cohere2_moe": Family("cohere_moe", Implementation(ep_plan=True)),
    "cohere2_vision": Family("multimodal.cohere", OF_ITS_TEXT),
    "cohere_compass": Family("multimodal.qwen_vl", OF_ITS_TEXT),
    "cohere_compass_text": Family(
        Decoder(
            dims={**COMMAND_R, "sliding_window": 4096},
            tied=True,
            norm="layer_unbiased",
            norms="shared",
            rope="in_windows",
            mlp_bias=False,
            windows=Windows(slides="none"),
        ),
        AS_LLAMA,
    ),
    "cosmos3_edge": Family("multimodal.cosmos", OF_ITS_TEXT),
    "cosmos3_edge_text": Family(
        Decoder(
            dims=dims(
                vocab=131072, hidden=2048, ffn=9216, layers=28, heads=16, groups=8, head_dim=128
            ),
            mlp="plain",
        ),
        AS_LLAMA,
    ),
    "cosmos3_omni": Family("multimodal.qwen_vl", OF_ITS_TEXT),
    "cpmant": Family("cpmant", AS_LLAMA),
    "ctrl": Family("gpt2", AS_LLAMA, drops=("hidden",)),
    "cwm": Family(
        Decoder(
            dims=dims(
                vocab=128256,
                hidden=6144,
                ffn=21504,
                layers=64,
                heads=48,
                groups=8,
                head_dim=128,
                sliding_window=8192,
            ),
            qkv_bias=False,
            out_bias=False,
            windows=Windows(first=0),
        ),
        Implementation(tp_plan=True),
    ),
    "dbrx": Family("dbrx", Implementation(packed_qkv=True)),
    "deepseek": Family("deepseek", AS_LLAMA),
    "deepseek_ocr2": Family("multimodal.ocr", OF_ITS_TEXT),
    "deepseek_ocr2_text": Family(
        Decoder(
            dims=dims(
                vocab=102400,
                hidden=4096,
                ffn=11008,
                layers=32,
                heads=32,
                moe_intermediate_size=1407,
                n_routed_experts=64,
                n_shared_experts=2,
                first_k_dense_replace=1,
            ),
            fixed={"head_dim": None},
            experts=replace(DEEPSEEK_EXPERTS, shared_bias=MLP_BIAS, listed=True),
        ),
        AS_LLAMA,
    ),
    "deepseek_v2": Family(
        Decoder(
            dims=dims(
                vocab=102400,
                hidden=4096,
                ffn=11008,
                layers=32,
                heads=32,
                q_lora_rank=1536,
                **DEEPSEEK_LATENT,
                moe_intermediate_size=1407,
                n_routed_experts=64,
                n_shared_experts=2,
                first_k_dense_replace=0,
            ),
            aliases={"num_experts": "n_routed_experts"},
            attention="latent",
            experts=replace(DEEPSEEK_EXPERTS, shared_bias=MLP_BIAS),
        ),
        Implementation(router_dtype="fp32", ep_plan=True),
    ),
    "deepseek_v3": Family(DEEPSEEK_V3, Implementation(router_dtype="fp32", ep_plan=True)),
    "deepseek_v32": Family(
        replace(
            DEEPSEEK_V3,
            dims={**DEEPSEEK_V3.dims, "index_n_heads": 64, "index_head_dim": 128},
            aliases={"num_local_experts": "n_routed_experts", "num_experts": "n_routed_experts"},
            attention="indexed",
            experts=replace(DEEPSEEK_EXPERTS, listed=True),
        ),
        Implementation(router_dtype="fp32", ep_plan=True),
    ),
    "deepseek_v4": Family(
        "deepseek_v4", Implementation(softmax_dtype="input", norm_scale_dtype="fp32")
    ),
    "deepseek_vl": Family("multimodal.deepseek_vl", OF_ITS_TEXT),
    "deepseek_vl_hybrid": Family("multimodal.deepseek_vl", OF_ITS_TEXT),
    "diffllama": Family("diffllama", AS_LLAMA),
    "doge": Family("doge", AS_LLAMA),
    "dots1": Family(
        Decoder(
            dims=dims(
                vocab=152064,
                hidden=4608,
                ffn=10944,
                layers=62,
                heads=32,
                groups=32,
                moe_intermediate_size=1408,
                first_k_dense_replace=0,
                sliding_window=4096,
                max_window_layers=62,
            ),
            aliases={"num_local_experts": "n_routed_experts"},
            qk_norm="head",
            mlp_bias=False,
            windows=Windows(slides="late"),
            experts=DEEPSEEK_EXPERTS,
        ),
        Implementation(router_dtype="fp32", ep_plan=True),
    ),
    "dots3_note": Family("multimodal.dots", OF_ITS_TEXT),
    "dots3_note_text": Family(
        "dots3_note", Implementation(partial_rotary=True, router_dtype="fp32", ep_plan=True)
    ),
    "emu3": Family("multimodal.image_tokens", OF_ITS_TEXT),
    "emu3_text_model": Family(
        Decoder(dims=dims(vocab=184622, hidden=4096, ffn=14336, layers=32, heads=32, groups=8)),
        AS_LLAMA,
        drops=("attention",),
    ),
    "ernie4_5": Family(ERNIE4_5, Implementation(tp_plan=True)),
    "ernie4_5_moe": Family("ernie_moe", Implementation(router_dtype="fp32", ep_plan=True)),
    "ernie4_5_vl_moe": Family("multimodal.baidu", OF_ITS_TEXT),
    "ernie4_5_vl_moe_text": Family("multimodal.baidu", Implementation(ep_plan=True)),
    "exaone": Family("exaone", AS_LLAMA),
    "exaone4": Family(
        Decoder(
            dims=dims(
                vocab=102400,
                hidden=4096,
                ffn=16384,
                layers=32,
                heads=32,
                groups=32,
                sliding_window=4096,
            ),
            norms="after",
            qk_norm="head",
            rope="in_windows_if_any",
            qkv_bias=False,
            out_bias=False,
            mlp_bias=False,
            windows=EXAONE_WINDOWS,
        ),
        Implementation(tp_plan=True),
    ),
    "exaone4_5": Family("multimodal.qwen_vl", OF_ITS_TEXT),
    "exaone_moe": Family(
        Decoder(
            dims=dims(
                vocab=102400,
                hidden=4096,
                ffn=16384,
                layers=32,
                heads=32,
                groups=32,
                sliding_window=4096,
                moe_intermediate_size=1024,
                num_experts=64,
                num_experts_per_tok=8,
                num_shared_experts=1,
                first_k_dense_replace=1,
            ),
            qk_norm="head",
            rope="in_windows_if_any",
            qkv_bias=False,
            out_bias=False,
            mlp_bias=False,
            windows=EXAONE_WINDOWS,
            experts=Moe(
                shared_count="num_shared_experts", dense="first_k_dense_replace", listed=True
            ),
        ),
        Implementation(router_dtype="fp32", ep_plan=True),
    ),
    "falcon": Family(
        "falcon", Implementation(packed_qkv=True, always_masks=True), activation="gelu"
    ),
    "falcon_h1": Family("bamba", AS_LLAMA, scales_embeddings=True),
    "falcon_mamba": Family("mamba", AS_LLAMA),
    "flex_olmo": Family(
        Decoder(
            dims=dims(
                vocab=100352,
                hidden=4096,
                ffn=11008,
                layers=32,
                heads=32,
                num_experts=7,
                num_experts_per_tok=5,
            ),
            aliases={"num_local_experts": "num_experts"},
            norms="after",
            qk_norm="width",
            experts=Moe(width="intermediate_size"),
        ),
        Implementation(norm_scale_dtype="fp32", ep_plan=True),
    ),
    "flint": Family(
        "qwen_moe", Implementation(norm_scale_dtype="fp32", router_dtype="fp32", ep_plan=True)
    ),
    "fun_asr_nano": Family("multimodal.asr", OF_ITS_TEXT),
    "fuyu": Family("multimodal.image_tokens", OF_ITS_TEXT),
    "gemma": Family(
        Decoder(
            dims=dims(
                vocab=256000, hidden=3072, ffn=24576, layers=28, heads=16, groups=16, head_dim=256
            ),
            tied=True,
            mlp_bias=False,
        ),
        Implementation(norm_scale_dtype="fp32", tp_plan=True),
        activation="gelu_pytorch_tanh",
    ),
    "gemma2": Family(
        Decoder(
            dims=GEMMA2_2B, tied=True, norms="around", mlp_bias=False, windows=Windows(period=2)
        ),
        Implementation(norm_scale_dtype="fp32", tp_plan=True),
        activation="gelu_pytorch_tanh",
        softcaps=("attention", "logits"),
    ),
    "gemma3": Family("multimodal.gemma", OF_ITS_TEXT),
    "gemma3_text": Family(
        Decoder(
            dims={**GEMMA2_2B, "vocab_size": 262208},
            tied=True,
            norms="around",
            qk_norm="head",
            mlp_bias=False,
            windows=Windows(period=6, period_key="sliding_window_pattern", nullable=True),
        ),
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
    "glm": Family(
        Decoder(
            dims=dims(
                vocab=151552, hidden=4096, ffn=13696, layers=40, heads=32, groups=2, head_dim=128
            ),
            qkv_bias=ConfigSwitch("attention_bias", True),
            out_bias=False,
            mlp_bias=False,
        ),
        Implementation(partial_rotary=True),
    ),
    "glm4": Family(GLM4, Implementation(partial_rotary=True)),
    "glm46v": Family("multimodal.glm", OF_ITS_TEXT),
    "glm4_moe": Family(
        GLM4_MOE, Implementation(partial_rotary=True, router_dtype="fp32", ep_plan=True)
    ),
    "glm4_moe_lite": Family(
        Decoder(
            dims=dims(
                vocab=154880,
                hidden=2048,
                ffn=10240,
                layers=47,
                heads=20,
                q_lora_rank=768,
                kv_lora_rank=512,
                qk_nope_head_dim=192,
                qk_rope_head_dim=64,
                v_head_dim=256,
                moe_intermediate_size=1536,
                n_routed_experts=64,
                n_shared_experts=1,
                num_experts_per_tok=4,
            ),
            aliases={"num_local_experts": "n_routed_experts", "head_dim": "qk_rope_head_dim"},
            attention="latent",
            mlp_bias=False,
            experts=replace(DEEPSEEK_EXPERTS, dense=1, listed=True),
        ),
        Implementation(router_dtype="fp32", ep_plan=True),
    ),
    "glm4v": Family("multimodal.glm", OF_ITS_TEXT),
    "glm4v_moe": Family("multimodal.glm", OF_ITS_TEXT),
    "glm4v_moe_text": Family(
        replace(
            GLM4_MOE,
            dims={**GLM4_MOE.dims, "vocab_size": 151424, "attention_bias": True},
            qk_norm=None,
            qk_norm_key=None,
        ),
        Implementation(ep_plan=True),
    ),
    "glm4v_text": Family(replace(GLM4, qkv_bias=True, fixed={"head_dim": None}), AS_LLAMA),
    "glm5_next": Family("multimodal.glm", OF_ITS_TEXT),
    "glm5_next_text": Family("glm5_next", Implementation(router_dtype="fp32", ep_plan=True)),
    "glm_moe_dsa": Family("glm_moe", Implementation(router_dtype="fp32", ep_plan=True)),
    "glm_ocr": Family("multimodal.glm", OF_ITS_TEXT),
    "glm_ocr_text": Family(
        Decoder(
            dims=dims(vocab=59392, hidden=1024, ffn=4096, layers=16, heads=16, groups=8),
            norms="around",
            qkv_bias=False,
            out_bias=False,
            mlp_bias=False,
        ),
        Implementation(partial_rotary=True),
    ),
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
        Decoder(
            dims=dims(
                vocab=201088,
                hidden=2880,
                ffn=2880,
                layers=36,
                heads=64,
                groups=8,
                head_dim=64,
                num_local_experts=128,
                num_experts_per_tok=4,
                sliding_window=128,
            ),
            aliases={"num_experts": "num_local_experts"},
            qkv_bias=ConfigSwitch("attention_bias", True),
            out_bias=ConfigSwitch("attention_bias", True),
            sinks=True,
            windows=Windows(period=2),
            experts=Moe(
                count="num_local_experts", width="intermediate_size", bias=True, router_bias=True
            ),
        ),
        Implementation(
            softmax_dtype="input",
            norm_scale_dtype="fp32",
            experts_activation="clamped_swiglu",
            ep_plan=True,
        ),
    ),
    "gptj": Family("gptj", Implementation(partial_rotary=True), activation="gelu_new"),
    "granite": Family(Decoder(dims=LLAMA_7B), Implementation(tp_plan=True), scales_embeddings=True),
    "granite4_vision": Family("multimodal.granite", OF_ITS_TEXT),
    "granite4_vision_text": Family(Decoder(dims=LLAMA_7B), AS_LLAMA, scales_embeddings=True),
    "granite_docling": Family("multimodal.granite", OF_ITS_TEXT),
    "granite_docling_text": Family(
        Decoder(
            dims=dims(
                vocab=133800,
                hidden=1024,
                ffn=2048,
                layers=28,
                heads=16,
                groups=4,
                tie_word_embeddings=True,
            ),
        ),
        AS_LLAMA,
        scales_embeddings=True,
    ),
    "granite_speech": Family("multimodal.granite", OF_ITS_TEXT),
    "granite_speech_plus": Family("multimodal.granite", OF_ITS_TEXT),
    "granite_swa": Family("granite", AS_LLAMA, scales_embeddings=True),
    "granitemoe": Family(
        Decoder(dims=GRANITE_MOE, experts=WIDE_EXPERTS),
        Implementation(router_dtype="fp32", ep_plan=True),
        scales_embeddings=True,
    ),
    "granitemoe_swa": Family(
        Decoder(
            dims={**GRANITE_MOE, "shared_intermediate_size": 0},
            sinks=True,
            windows=Windows(first=0),
            experts=replace(WIDE_EXPERTS, shared_width="shared_intermediate_size"),
        ),
        Implementation(router_dtype="fp32", ep_plan=True),
        scales_embeddings=True,
    ),
    "granitemoehybrid": Family(
        "bamba", Implementation(router_dtype="fp32", ep_plan=True), scales_embeddings=True
    ),
    "granitemoeshared": Family(
        Decoder(
            dims={**GRANITE_MOE, "shared_intermediate_size": 0},
            experts=replace(WIDE_EXPERTS, shared_width="shared_intermediate_size"),
        ),
        Implementation(router_dtype="fp32", ep_plan=True),
        scales_embeddings=True,
    ),
    "helium": Family("helium", Implementation(norm_scale_dtype="fp32", tp_plan=True)),
    "hrm_text": Family("hrm_text", Implementation(gate_projection="gate_proj")),
    "hunyuan_v1_dense": Family(HUNYUAN, AS_LLAMA),
    "hunyuan_v1_moe": Family("hunyuan_moe", Implementation(ep_plan=True)),
    "hunyuan_vl": Family("multimodal.hunyuan", OF_ITS_TEXT),
    "hunyuan_vl_text": Family(
        replace(
            HUNYUAN,
            dims={**HUNYUAN.dims, "tie_word_embeddings": True},
            aliases={"attention_head_dim": "head_dim", "org_vocab_size": "vocab_size"},
        ),
        AS_LLAMA,
    ),
    "hy_v3": Family(
        Decoder(
            dims=dims(
                vocab=120832,
                hidden=4096,
                ffn=13312,
                layers=80,
                heads=64,
                groups=8,
                head_dim=128,
                moe_intermediate_size=1536,
                num_experts=192,
                num_experts_per_tok=8,
                num_shared_experts=1,
            ),
            aliases={"num_local_experts": "num_experts"},
            qk_norm="head",
            experts=Moe(
                shared_count="num_shared_experts", shared_bias=MLP_BIAS, dense=1, listed=True
            ),
        ),
        Implementation(router_dtype="fp32", ep_plan=True),
    ),
    "hy_v4": Family(
        "hy_v4", Implementation(softmax_dtype="input", router_dtype="fp32", ep_plan=True)
    ),
    "hyperclovax": Family("granite", AS_LLAMA, scales_embeddings=True),
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
    "internlm": Family(
        Decoder(
            dims={**LLAMA_7B, "vocab_size": 103168, "attention_bias": True},
            aliases={"bias": "attention_bias"},
        ),
        AS_LLAMA,
    ),
    "internlm2": Family(
        Decoder(
            dims={**LLAMA_7B, "vocab_size": 103168, "attention_bias": True},
            aliases={"bias": "attention_bias"},
        ),
        AS_LLAMA,
    ),
    "internlm3": Family(
        Decoder(
            dims=dims(
                vocab=128512, hidden=4096, ffn=10240, layers=48, heads=32, groups=2, head_dim=128
            ),
            aliases={"qkv_bias": "attention_bias", "bias": "mlp_bias"},
        ),
        AS_LLAMA,
    ),
    "internvl": Family("multimodal.internvl", OF_ITS_TEXT),
    "internvl_chat": Family("multimodal.internvl", OF_ITS_TEXT),
    "iquestcoder": Family(
        Decoder(
            dims=dims(
                vocab=76800, hidden=5120, ffn=27648, layers=80, heads=40, groups=8, head_dim=128
            )
        ),
        AS_LLAMA,
    ),
    "jais2": Family(
        Decoder(
            dims=dims(
                vocab=150272,
                hidden=3328,
                ffn=26624,
                layers=32,
                heads=26,
            ),
            norm="layer",
            mlp="plain",
            qkv_bias=ConfigSwitch("attention_bias", True),
            out_bias=ConfigSwitch("attention_bias", True),
            mlp_bias=ConfigSwitch("mlp_bias", True),
        ),
        AS_LLAMA,
        activation="relu2",
    ),
    "jamba": Family("jamba", Implementation(ep_plan=True)),
    "janus": Family("multimodal.image_tokens", OF_ITS_TEXT),
    "jetmoe": Family("jetmoe", AS_LLAMA),
    "kimi_k2": Family(DEEPSEEK_V3, Implementation(router_dtype="fp32")),
    "kimi_k25": Family("multimodal.kimi", OF_ITS_TEXT),
    "kimi_k3": Family("multimodal.kimi", OF_ITS_TEXT),
    "kimi_linear": Family("kimi_linear", Implementation(router_dtype="fp32", ep_plan=True)),
    "kimi_vl": Family("multimodal.kimi", OF_ITS_TEXT),
    "kolibri1": Family(
        Decoder(
            dims=dims(
                vocab=128000,
                hidden=2560,
                layers=50,
                heads=48,
                groups=4,
                head_dim=128,
                moe_intermediate_size=512,
                shared_expert_intermediate_size=512,
                num_experts=384,
                num_experts_per_tok=6,
                sliding_window=513,
            ),
            aliases={"num_local_experts": "num_experts"},
            norms="around",
            qkv_bias=False,
            out_bias=False,
            qk_norm="head",
            rope="in_windows_if_any",
            windows=Windows(period=5),
            experts=Moe(shared_width="shared_expert_intermediate_size"),
        ),
        Implementation(router_dtype="fp32", ep_plan=True),
    ),
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
    "llama": Family(Decoder(dims=LLAMA_7B), Implementation(tp_plan=True)),
    "llama4": Family("multimodal.llama", OF_ITS_TEXT),
    "llama4_text": Family("llama4", Implementation(softmax_dtype="input")),
    "llava": Family("multimodal.llava", OF_ITS_TEXT),
    "llava_next": Family("multimodal.llava", OF_ITS_TEXT),
    "llava_next_video": Family("multimodal.llava", OF_ITS_TEXT),
    "llava_onevision": Family("multimodal.llava", OF_ITS_TEXT),
    "longcat_flash": Family("longcat", Implementation(router_dtype="fp32")),
    "mamba": Family("mamba", AS_LLAMA),
    "mamba2": Family("mamba", AS_LLAMA),
    "mellum": Family(
        Decoder(
            dims=dims(
                vocab=98304,
                hidden=2304,
                ffn=7168,
                layers=28,
                heads=32,
                groups=4,
                head_dim=128,
                moe_intermediate_size=896,
                num_experts=64,
                num_experts_per_tok=8,
                sliding_window=1024,
            ),
            aliases={"num_local_experts": "num_experts"},
            qk_norm="head",
            mlp_bias=False,
            windows=Windows(slides="none"),
            experts=Moe(listed=True),
        ),
        Implementation(ep_plan=True),
    ),
    "mimo": Family(QWEN2, AS_LLAMA),
    "mimo_v2_flash": Family(
        "mimo_v2",
        Implementation(
            partial_rotary=True, softmax_dtype="input", router_dtype="fp32", ep_plan=True
        ),
    ),
    "minicpm": Family("minicpm", AS_LLAMA),
    "minicpm3": Family("minicpm", AS_LLAMA),
    "minicpm_ocr": Family("multimodal.minicpm", OF_ITS_TEXT),
    "minicpmv": Family("multimodal.minicpm", OF_ITS_TEXT),
    "minicpmv4_6": Family("multimodal.minicpm", OF_ITS_TEXT),
    "minicpmv4_7": Family("multimodal.minicpm", OF_ITS_TEXT),
    "minimax": Family("minimax", Implementation(ep_plan=True)),
    "minimax_m2": Family("minimax", Implementation(partial_rotary=True, ep_plan=True)),
    "minimax_m3_vl": Family("multimodal.minimax", OF_ITS_TEXT),
    "minimax_m3_vl_text": Family(
        "minimax_m3", Implementation(partial_rotary=True, norm_scale_dtype="fp32")
    ),
    "ministral": Family(
        Decoder(
            dims=MISTRAL_7B,
            qkv_bias=False,
            out_bias=False,
            mlp_bias=False,
            windows=Windows(slides="all"),
        ),
        Implementation(tp_plan=True),
    ),
    "ministral3": Family(
        Decoder(
            dims=dims(
                vocab=131072, hidden=4096, ffn=14336, layers=34, heads=32, groups=8, head_dim=128
            ),
            qkv_bias=False,
            out_bias=False,
            mlp_bias=False,
            windows=ALIKE,
        ),
        Implementation(tp_plan=True),
    ),
    "mistral": Family(
        Decoder(dims=MISTRAL_7B, qkv_bias=False, out_bias=False, mlp_bias=False, windows=ALIKE),
        Implementation(tp_plan=True),
    ),
    "mistral3": Family("multimodal.mistral", OF_ITS_TEXT),
    "mistral4": Family(
        Decoder(
            dims=dims(
                vocab=131072,
                hidden=4096,
                ffn=12288,
                layers=36,
                heads=32,
                q_lora_rank=1024,
                kv_lora_rank=256,
                qk_nope_head_dim=64,
                qk_rope_head_dim=64,
                v_head_dim=128,
                moe_intermediate_size=2048,
                n_routed_experts=128,
                n_shared_experts=1,
                num_experts_per_tok=4,
                first_k_dense_replace=0,
            ),
            aliases={"num_local_experts": "n_routed_experts"},
            attention="latent",
            mlp_bias=False,
            experts=DEEPSEEK_EXPERTS,
        ),
        Implementation(ep_plan=True),
    ),
    "mistral_large4": Family("multimodal.mistral", OF_ITS_TEXT),
    "mistral_large4_text": Family(
        "mistral_large4",
        Implementation(partial_rotary=True, router_dtype="fp32", ep_plan=True),
        softcaps=("logits",),
    ),
    "mixtral": Family(
        Decoder(
            dims={
                **MISTRAL_7B,
                "sliding_window": None,
                "num_local_experts": 8,
                "num_experts_per_tok": 2,
            },
            aliases={"num_experts": "num_local_experts"},
            qkv_bias=False,
            out_bias=False,
            windows=ALIKE,
            experts=WIDE_EXPERTS,
        ),
        Implementation(ep_plan=True),
    ),
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
    "nanochat": Family("nanochat", AS_LLAMA, activation="relu2", softcaps=("logits",)),
    "nemotron": Family(
        Decoder(
            dims=dims(vocab=256000, hidden=6144, ffn=24576, layers=32, heads=48),
            norm="layer",
            mlp="plain",
        ),
        Implementation(partial_rotary=True, tp_plan=True),
        activation="relu2",
    ),
    "nemotron-nas": Family("nemotron_nas", AS_LLAMA),
    "nemotron_h": Family(
        "nemotron_h",
        Implementation(norm_scale_dtype="fp32", router_dtype="fp32", ep_plan=True),
        activation="relu2",
    ),
    "nemotron_h_omni": Family("multimodal.nemotron", OF_ITS_TEXT),
    "olmo": Family(
        Decoder(dims=OLMO_7B, norm="layer_bare", mlp_bias=False),
        Implementation(layer_norm="kernel_in_fp32", tp_plan=True),
    ),
    "olmo2": Family(
        Decoder(dims=OLMO_7B, norms="after", qk_norm="width", mlp_bias=False),
        Implementation(norm_scale_dtype="fp32"),
    ),
    "olmo3": Family(
        Decoder(
            dims={**OLMO_7B, "sliding_window": 4096},
            norms="after",
            qk_norm="width",
            mlp_bias=False,
            windows=Windows(),
        ),
        Implementation(norm_scale_dtype="fp32"),
    ),
    "olmo_hybrid": Family("olmo_hybrid", Implementation(norm_scale_dtype="fp32")),
    "olmoe": Family("olmoe", Implementation(ep_plan=True)),
    "openai-gpt": Family(
        "gpt2", Implementation(packed_qkv=True), activation="gelu", drops=("attention", "hidden")
    ),
    "opt": Family("opt", AS_LLAMA, activation="relu", drops=("hidden",)),
    "orion": Family("stablelm", AS_LLAMA),
    "ovis2": Family("multimodal.ovis", OF_ITS_TEXT),
    "paddleocr_vl": Family("multimodal.baidu", OF_ITS_TEXT),
    "paddleocr_vl_text": Family(ERNIE4_5, AS_LLAMA),
    "paligemma": Family("multimodal.gemma", OF_ITS_TEXT),
    "persimmon": Family(
        "gpt_neox", Implementation(packed_qkv=True, partial_rotary=True), activation="relu2"
    ),
    "phi": Family("phi", Implementation(partial_rotary=True), activation="gelu_new"),
    "phi3": Family(
        Decoder(
            dims=dims(vocab=32064, hidden=3072, ffn=8192, layers=32, heads=32),
            qkv_bias=False,
            out_bias=False,
            mlp_bias=False,
            windows=ALIKE,
        ),
        Implementation(packed_qkv=True, partial_rotary=True),
    ),
    "phi3_v": Family("multimodal.phi3", Implementation(packed_qkv=True, partial_rotary=True)),
    "phi4_multimodal": Family(
        "multimodal.phi4", Implementation(packed_qkv=True, partial_rotary=True)
    ),
    "phimoe": Family(
        Decoder(
            dims=dims(
                vocab=32064,
                hidden=4096,
                ffn=6400,
                layers=32,
                heads=32,
                groups=8,
                num_local_experts=16,
                num_experts_per_tok=2,
            ),
            norm="layer",
            windows=ALIKE,
            experts=WIDE_EXPERTS,
            head_bias=ConfigSwitch("lm_head_bias"),
        ),
        Implementation(ep_plan=True),
    ),
    "pp_chart2table": Family("multimodal.ocr", OF_ITS_TEXT),
    "qianfan_ocr": Family("multimodal.internvl", OF_ITS_TEXT),
    "qwen": Family("qwen", AS_LLAMA),
    "qwen2": Family(QWEN2, Implementation(tp_plan=True)),
    "qwen2_5_omni_text": Family(
        replace(
            QWEN2,
            dims=dims(
                vocab=152064,
                hidden=3584,
                ffn=18944,
                layers=28,
                heads=28,
                groups=4,
                sliding_window=32768,
                max_window_layers=28,
                tie_word_embeddings=True,
            ),
        ),
        AS_LLAMA,
    ),
    "qwen2_5_omni_thinker": Family("multimodal.qwen_audio", OF_ITS_TEXT),
    "qwen2_5_vl": Family("multimodal.qwen_vl", OF_ITS_TEXT),
    "qwen2_5_vl_text": Family(QWEN2_VL, AS_LLAMA),
    "qwen2_audio": Family("multimodal.qwen_audio", OF_ITS_TEXT),
    "qwen2_moe": Family("qwen_moe", Implementation(ep_plan=True)),
    "qwen2_vl": Family("multimodal.qwen_vl", OF_ITS_TEXT),
    "qwen2_vl_text": Family(QWEN2_VL, AS_LLAMA),
    "qwen3": Family(QWEN3, Implementation(tp_plan=True)),
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
    "qwen3_vl_text": Family(QWEN3, AS_LLAMA),
    "qwen4_exp": Family("multimodal.qwen_vl", OF_ITS_TEXT),
    "qwen4_exp_text": Family("qwen4_exp", Implementation(norm_scale_dtype="fp32", ep_plan=True)),
    "recurrent_gemma": Family(
        "recurrent_gemma",
        Implementation(partial_rotary=True, norm_scale_dtype="fp32"),
        activation="gelu_pytorch_tanh",
    ),
    "rwkv": Family("rwkv", AS_LLAMA),
    "seed_oss": Family(
        Decoder(
            dims=dims(
                vocab=155136, hidden=4096, ffn=27648, layers=64, heads=80, groups=8, head_dim=128
            ),
            qkv_bias=ConfigSwitch("attention_bias", True),
            out_bias=ConfigSwitch("attention_out_bias"),
        ),
        Implementation(tp_plan=True),
        drops=("attention", "hidden"),
    ),
    "shieldgemma2": Family("multimodal.gemma", OF_ITS_TEXT),
    "smollm3": Family("smollm3", Implementation(tp_plan=True)),
    "smolvlm": Family("multimodal.idefics", OF_ITS_TEXT),
    "solar_open": Family(
        Decoder(
            dims=dims(
                vocab=196608,
                hidden=4096,
                layers=48,
                heads=64,
                groups=8,
                head_dim=128,
                moe_intermediate_size=1280,
                n_routed_experts=128,
                n_shared_experts=1,
                num_experts_per_tok=8,
            ),
            aliases={"num_local_experts": "n_routed_experts"},
            out_bias=False,
            experts=replace(DEEPSEEK_EXPERTS, dense=0),
        ),
        Implementation(router_dtype="fp32", ep_plan=True),
    ),
    "stablelm": Family("stablelm", Implementation(partial_rotary=True)),
    "starcoder2": Family(
        Decoder(
            dims=dims(vocab=49152, hidden=3072, ffn=12288, layers=30, heads=24, groups=2),
            tied=True,
            norm="layer",
            mlp="plain",
            qkv_bias=ConfigSwitch("use_bias", True),
            out_bias=ConfigSwitch("use_bias", True),
            mlp_bias=ConfigSwitch("use_bias", True),
            windows=ALIKE,
        ),
        AS_LLAMA,
        activation="gelu_pytorch_tanh",
    ),
    "step3p5": Family(
        "multimodal.step", Implementation(partial_rotary=True, norm_scale_dtype="fp32")
    ),
    "step3p7": Family("multimodal.step", OF_ITS_TEXT),
    "unlimited_ocr": Family("multimodal.ocr", OF_ITS_TEXT),
    "unlimited_ocr_text": Family("unlimited_ocr", AS_LLAMA),
    "vaultgemma": Family(
        Decoder(dims=GEMMA2_2B, tied=True, mlp_bias=False, windows=Windows(period=2)),
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
    "xverse": Family(
        Decoder(dims=dims(vocab=100278, hidden=5120, ffn=13824, layers=40, heads=40)), AS_LLAMA
    ),
    "youtu": Family(
        Decoder(
            dims=dims(
                vocab=128256,
                hidden=2048,
                ffn=6144,
                layers=32,
                heads=16,
                q_lora_rank=1536,
                **DEEPSEEK_LATENT,
            ),
            tied=True,
            attention="latent",
            mlp_bias=False,
        ),
        AS_LLAMA,
    ),
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
