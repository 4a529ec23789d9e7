"""GPT-J and CodeGen: attention without biases beside a biased MLP, behind one LayerNorm."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    layer_count,
    layer_norm,
    multi_head_attention,
    parallel_layer,
)
from trainfit.architectures.gpt2 import GPT2_NAMES, four_times_hidden
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Mlp

_GPTJ_6B = {
    "vocab_size": 50400,
    "hidden_size": 4096,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
}


def gptj(config: Config) -> ModelSpec:
    """The output layer has a bias."""
    config = config.with_defaults(_GPTJ_6B, **GPT2_NAMES)
    norm = layer_norm(config.int("hidden_size"))
    mlp = Mlp(ffn=four_times_hidden(config, "n_inner"), gated=False, bias=True)
    layer = parallel_layer((norm,), multi_head_attention(config), mlp)
    layers = [layer] * layer_count(config)
    return decoder(config, layers, tied=False, final_norm=norm, head_bias=True)


PARSERS = {"codegen": gptj, "gptj": gptj}
