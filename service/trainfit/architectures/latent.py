"""Multi-head latent attention by the key names of DeepSeek."""

from trainfit.architectures.config import Config
from trainfit.specs.blocks import Indexer, LatentAttention


def latent_attention(
    config: Config,
    *,
    gate_width: int = 0,
    sinks: bool = False,
    window: int | None = None,
    indexer: Indexer | None = None,
) -> LatentAttention:
    """MLA; a null `q_lora_rank` means queries straight from the hidden state."""
    return LatentAttention(
        heads=config.int("num_attention_heads"),
        q_lora_rank=config.optional_int("q_lora_rank"),
        kv_lora_rank=config.int("kv_lora_rank"),
        qk_nope_head_dim=config.int("qk_nope_head_dim"),
        qk_rope_head_dim=config.int("qk_rope_head_dim"),
        v_head_dim=config.int("v_head_dim"),
        down_bias=config.bool("attention_bias", False),
        out_bias=config.bool("attention_bias", False),
        gate_width=gate_width,
        sinks=sinks,
        window=window,
        indexer=indexer,
    )


def lightning_indexer(config: Config) -> Indexer:
    """The indexer of DeepSeek V3.2; it reads the query latent, which must be there."""
    if config.optional_int("q_lora_rank") is None:
        raise config.error("q_lora_rank", "must be an integer: the indexer reads the query latent")
    return Indexer(heads=config.int("index_n_heads"), head_dim=config.int("index_head_dim"))
