"""Qwen4-Exp: Qwen3.5's mixers on hyper-connected residual streams, with n-gram embeddings.

Symbols: h hidden, c copies of the residual stream, p width of an n-gram embedding.
"""

from collections.abc import Sequence
from itertools import count, islice
from math import ceil

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import decoder, layer_count, rms
from trainfit.architectures.experts import routed_experts
from trainfit.architectures.layer_patterns import attention_types, layer_numbers
from trainfit.architectures.qwen3_next import EXPERTS, QWEN, delta_net, gated_attention
from trainfit.architectures.weights import linear, opaque, weight
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Block, Bucket, Layer, NamedWeight, Opaque, Sublayer

_QWEN4_EXP = {
    **QWEN,
    **EXPERTS,
    "model_type": "qwen4_exp_text",
    "num_hidden_layers": 40,
    "num_experts_per_tok": 10,
    "num_experts": 512,
    "hc_count": 4,
    "hc_lowrank": 320,
    "ple_embed_dim": None,
    "ple_conv_kernel_size": 4,
    "ngram_size": 3,
    "heads_per_ngram": 8,
    "ngram_vocab_size_base": 20_000_000,
    "make_ngram_vocab_size_divisible_by": 128,
}
_MAX_PRIMES, _MAX_BASE = 4096, 2**31
"""Bounds of the search for the sizes of n-gram tables."""


def qwen4_exp_text(config: Config) -> ModelSpec:
    """`ple_layer_ids` counts the layers with an n-gram embedding from 1; all of them are linear."""
    config = config.with_defaults(_QWEN4_EXP)
    linear_layer = _layer(config, delta_net(config))
    sparse_layer = _layer(config, gated_attention(config), _indexer(config))
    layers = [linear_layer if linear else sparse_layer for linear in _linear(config)]
    embedded = sorted(layer_numbers(config, "ple_layer_ids"))
    for number, rows in zip(embedded, _table_rows(config, len(embedded)), strict=True):
        if not 1 <= number <= len(layers) or layers[number - 1] is sparse_layer:
            raise config.error("ple_layer_ids", "must hold linear layers, counted from 1")
        ngrams = Sublayer(blocks=(_ngram_embedding(config, rows),))
        layers[number - 1] = Layer(sublayers=(ngrams, *linear_layer.sublayers))
    mixing = opaque("hyper_connection", "other", *_stream_mixing(config))
    norm = rms(config.int("hc_count") * config.int("hidden_size"))
    return decoder(
        config,
        layers,
        tied=False,
        final_norm=norm,
        extras=(mixing,),
        residual_streams=config.int("hc_count"),
    )


def _linear(config: Config) -> Sequence[bool]:
    """Sparse attention in every `full_attention_interval`th layer, also where called full."""
    interval = config.int("full_attention_interval")
    default = [
        "linear_attention" if (index + 1) % interval else "indexed_attention"
        for index in range(layer_count(config))
    ]
    allowed = ("linear_attention", "full_attention", "indexed_attention")
    return [each == "linear_attention" for each in attention_types(config, default, allowed)]


def _layer(config: Config, *mixer: Block) -> Layer:
    """Each block reads a mix of the streams and is injected into all of them."""
    experts = routed_experts(
        config,
        "num_experts",
        "moe_intermediate_size",
        shared_ffn=config.int("shared_expert_intermediate_size"),
        shared_gate=True,
    )
    return Layer(
        sublayers=(
            _connected(config, "attention", *mixer),
            _connected(config, "dense_mlp", experts),
        )
    )


def _connected(config: Config, bucket: Bucket, *blocks: Block) -> Sublayer:
    hidden, copies = config.int("hidden_size"), config.int("hc_count")
    connection = opaque(
        "hyper_connection",
        bucket,
        *_stream_mixing(config),
        *linear("block_inject", copies, copies * hidden),
    )
    return Sublayer(norms=(rms(copies * hidden),), blocks=(connection, *blocks))


def _stream_mixing(config: Config) -> tuple[NamedWeight, ...]:
    """Weights of the streams' features in a mix, through `hc_lowrank` features."""
    width, rank = config.int("hc_count") * config.int("hidden_size"), config.int("hc_lowrank")
    return (*linear("input_mix_down", rank, width), *linear("input_mix_up", width, rank))


def _indexer(config: Config) -> Opaque:
    """Queries and one key by block of tokens, both normed, choose what attention reads."""
    heads, head_dim = config.int("indexer_n_heads"), config.int("indexer_head_dim")
    width = (heads + config.int("indexer_kv_heads")) * head_dim
    return opaque(
        "indexer",
        "attention",
        *linear("index_qk_proj", width, config.int("hidden_size")),
        weight("index_qk_norms", 2, head_dim, bucket="norm"),
    )


def _ngram_embedding(config: Config, rows: int) -> Opaque:
    """One table for all heads, keys and a value for the streams, a convolution over time."""
    width = config.int("hc_count") * config.int("hidden_size")
    optional = config.optional_int("ple_embed_dim")
    features = config.int("hidden_size") if optional is None else optional
    if features % _ngram_heads(config):
        raise config.error("ple_embed_dim", f"must be a multiple of {_ngram_heads(config)} heads")
    return opaque(
        "ngram_embedding",
        "other",
        weight("ngram_embedding", rows, features // _ngram_heads(config)),
        *linear("key_proj", width, features),
        *linear("value_proj", config.int("hidden_size"), features),
        weight("norms", 3, width, bucket="norm"),
        weight("conv1d", width, config.int("ple_conv_kernel_size"), bucket="linear_attention"),
    )


def _ngram_heads(config: Config) -> int:
    return (config.int("ngram_size") - 1) * config.int("heads_per_ngram")


def _table_rows(config: Config, tables: int) -> list[int]:
    """Rows of each layer's table: a prime for each head, no prime twice, the sum padded.

    Source: transformers/models/qwen4_exp/modeling_qwen4_exp.py (Qwen4ExpTextNGramEmbedding).
    """
    heads, base = _ngram_heads(config), config.int("ngram_vocab_size_base")
    if tables and (not 1 <= heads * tables <= _MAX_PRIMES or base > _MAX_BASE):
        raise config.error("heads_per_ngram", "with ngram_size makes too many or too large tables")
    multiple = config.int("make_ngram_vocab_size_divisible_by")
    primes = islice(filter(_is_prime, count(max(base, 2))), heads * tables)
    sizes = [sum(islice(primes, heads)) for _ in range(tables)]
    return [ceil(size / multiple) * multiple for size in sizes]


def _is_prime(number: int) -> bool:
    """Miller-Rabin; these bases decide every number below 3 215 031 751."""
    if number < 11:
        return number in (2, 3, 5, 7)
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in (2, 3, 5, 7):
        power = pow(base, odd, number)
        squares = (pow(power, 2**exponent, number) for exponent in range(twos))
        if power != 1 and number - 1 not in squares:
            return False
    return True


PARSERS = {"qwen4_exp_text": qwen4_exp_text}
