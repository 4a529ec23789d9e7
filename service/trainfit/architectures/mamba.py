"""Mamba 1 and 2 without attention: each layer is one mixer behind a norm."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import decoder, layer_count, pre_norm_layer, rms
from trainfit.architectures.state_space import mamba2_mixer, mamba_mixer, time_step_rank
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Recurrence

_MAMBA = {
    "vocab_size": 50280,
    "hidden_size": 768,
    "state_size": 16,
    "num_hidden_layers": 32,
    "expand": 2,
    "conv_kernel": 4,
    "use_bias": False,
    "use_conv_bias": True,
    "time_step_rank": "auto",
}
_MAMBA2 = {
    "num_heads": 128,
    "head_dim": 64,
    "vocab_size": 32768,
    "hidden_size": 4096,
    "state_size": 128,
    "num_hidden_layers": 64,
    "expand": 2,
    "conv_kernel": 4,
    "n_groups": 8,
    "use_bias": False,
    "use_conv_bias": True,
}


def mamba(config: Config) -> ModelSpec:
    """Mamba 1. An `intermediate_size` in the config wins over `expand`.

    Falcon-Mamba norms time step, B and C as well, with norms that own no weights.
    """
    config = config.with_defaults(_MAMBA)
    hidden = config.int("hidden_size")
    mixer = mamba_mixer(
        hidden,
        inner=config.int("intermediate_size", config.int("expand") * hidden),
        state=config.int("state_size"),
        rank=time_step_rank(config, "time_step_rank"),
        kernel=config.int("conv_kernel"),
        bias=config.bool("use_bias"),
        conv_bias=config.bool("use_conv_bias"),
    )
    return _decoder(config, mixer, tied=True)


def mamba2(config: Config) -> ModelSpec:
    config = config.with_defaults(_MAMBA2)
    hidden, heads = config.int("hidden_size"), config.int("num_heads")
    inner = config.int("expand") * hidden
    if inner != heads * config.int("head_dim"):
        raise config.error("num_heads", "times head_dim must be expand times hidden_size")
    mixer = mamba2_mixer(
        hidden,
        inner=inner,
        heads=heads,
        groups=config.int("n_groups"),
        state=config.int("state_size"),
        kernel=config.int("conv_kernel"),
        in_bias=config.bool("use_bias"),
        out_bias=config.bool("use_bias"),
        conv_bias=config.bool("use_conv_bias"),
    )
    return _decoder(config, mixer, tied=False)


def _decoder(config: Config, mixer: Recurrence, *, tied: bool) -> ModelSpec:
    norm = rms(config.int("hidden_size"))
    layers = [pre_norm_layer(norm, mixer)] * layer_count(config)
    return decoder(config, layers, tied=tied, final_norm=norm)


PARSERS = {"falcon_mamba": mamba, "mamba": mamba, "mamba2": mamba2}
