"""DeepSeek V4: one shared key-value head, keys compressed along the sequence, hyper-connections."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import layer_count, pre_norm_decoder, rms
from trainfit.architectures.experts import routed_experts
from trainfit.architectures.hyper_connections import hyper_connection, hyper_head
from trainfit.architectures.layer_patterns import attention_types, integers
from trainfit.architectures.weights import linear, opaque, weight
from trainfit.architectures.windows import sliding_window
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Attention, Block, Bucket, Experts, NamedWeight, Opaque

_V4 = {
    "vocab_size": 129280,
    "hidden_size": 4096,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 43,
    "num_attention_heads": 64,
    "head_dim": 512,
    "q_lora_rank": 1024,
    "o_lora_rank": 1024,
    "o_groups": 8,
    "n_routed_experts": 256,
    "num_experts_per_tok": 6,
    "index_n_heads": 64,
    "index_head_dim": 128,
    "hc_mult": 4,
    "sliding_window": 128,
}

SLIDING = "sliding_attention"
SPARSE = "compressed_sparse_attention"
HEAVY = "heavily_compressed_attention"
_RATES = {SPARSE: 4, HEAVY: 128}
_TYPE_OF_RATE = {0: SLIDING, 4: SPARSE, 128: HEAVY}


def _types(config: Config, total: int) -> list[str]:
    """`layer_types`, or `compress_ratios` of earlier configs, or heavy and sparse in turn."""
    default = [SPARSE if index >= 2 and index % 2 else HEAVY for index in range(total)]
    if config.get("layer_types") is None and config.get("compress_ratios") is not None:
        rates = integers(config, "compress_ratios")
        if len(rates) < total or not set(rates) <= set(_TYPE_OF_RATE):
            raise config.error("compress_ratios", f"must hold {total} of 0, 4 and 128")
        default = [_TYPE_OF_RATE[rate] for rate in rates[:total]]
    return list(attention_types(config, default, (SLIDING, SPARSE, HEAVY)))


def _rate(config: Config, kind: str, key: str) -> int:
    """Tokens that one compressed key stands for; it decides the length of a learned bias."""
    if config.optional_int(key) is not None:
        return config.int(key)
    if config.get("compress_rates") is None:
        return _RATES[kind]
    return config.section("compress_rates").int(kind)


def _attention(config: Config) -> Attention:
    head_dim = config.int("head_dim")
    return Attention(
        heads=config.int("num_attention_heads"),
        kv_heads=1,
        head_dim=head_dim,
        key_is_value=True,
        k_norm=rms(head_dim),
        sinks=True,
        window=sliding_window(config),
        q_lora_rank=config.int("q_lora_rank"),
        out_lora_rank=config.int("o_lora_rank"),
        out_groups=config.int("o_groups"),
    )


def _pooling(
    prefix: str, hidden: int, width: int, overlap: int, rate: int
) -> tuple[NamedWeight, ...]:
    """Keys pooled over `rate` tokens by learned weights; sparse layers overlap their blocks."""
    return (
        *linear(f"{prefix}kv_proj", overlap * width, hidden),
        *linear(f"{prefix}gate_proj", overlap * width, hidden),
        weight(f"{prefix}position_bias", rate, overlap * width),
        weight(f"{prefix}kv_norm", width, bucket="norm"),
    )


def _compressor(config: Config, kind: str) -> Opaque:
    hidden, width = config.int("hidden_size"), config.int("head_dim")
    if kind == HEAVY:
        rate = _rate(config, HEAVY, "compress_rate_hca")
        return opaque("compressor", "attention", *_pooling("", hidden, width, 1, rate))
    rate = _rate(config, SPARSE, "compress_rate_csa")
    heads, index_width = config.int("index_n_heads"), config.int("index_head_dim")
    return opaque(
        "compressor",
        "attention",
        *_pooling("", hidden, width, 2, rate),
        *_pooling("indexer_", hidden, index_width, 2, rate),
        *linear("indexer_q_b_proj", heads * index_width, config.int("q_lora_rank")),
        *linear("indexer_weights_proj", heads, hidden),
    )


def _experts(config: Config) -> Experts:
    """The shared expert is as wide as a routed one, whatever `n_shared_experts` says."""
    return routed_experts(
        config,
        "n_routed_experts",
        "moe_intermediate_size",
        shared_ffn=config.int("moe_intermediate_size"),
        shared_bias=config.bool("mlp_bias", False),
    )


def deepseek_v4(config: Config) -> ModelSpec:
    config = config.with_defaults(
        _V4, num_local_experts="n_routed_experts", intermediate_size="moe_intermediate_size"
    )
    hidden, streams = config.int("hidden_size"), config.int("hc_mult")
    attention = _attention(config)

    def mixed(bucket: Bucket, *blocks: Block) -> tuple[Block, ...]:
        mixes = (2 + streams) * streams
        return *blocks, hyper_connection(bucket, hidden, streams, mixes=mixes, scales=3)

    def attend(kind: str) -> tuple[Block, ...]:
        compressor = () if kind == SLIDING else (_compressor(config, kind),)
        return mixed("attention", attention, *compressor)

    types = _types(config, layer_count(config))
    return pre_norm_decoder(
        config,
        rms(hidden),
        [attend(kind) for kind in types],
        [mixed("dense_mlp", _experts(config))] * len(types),
        extras=(hyper_head(hidden, streams),),
        residual_streams=streams,
    )


PARSERS = {"deepseek_v4": deepseek_v4}
