"""By which of torchao's recipes a model's converters have its linears multiply.

Sources: torchtitan's components/quantization (float8.py, mx.py) and config/job_config.py at the
releases.
"""

from trainfit.launch.torchtitan.keys import (
    DEFAULT_RECIPE,
    EXPERTS_IN_MXFP8,
    FLOAT8,
    FLOAT8_RECIPES,
    MXFP8,
    MXFP8_RECIPES,
    NO_LINEARS_OF_LAYERS,
)
from trainfit.launch.torchtitan.releases import RENAMED, every_key
from trainfit.launch.torchtitan.run import TorchtitanRun
from trainfit.launch.values import flag, names, word


def read_recipe(run: TorchtitanRun) -> None:
    """Linears multiply in fp8 where a converter of the model makes them."""
    converters = run.reading.value("model.converters", [], names)
    switch = "float8.enable_float8_linear"
    enabled = run.reading.value(switch, False, flag)
    by_float8 = enabled or bool(set(converters) & set(FLOAT8))
    by_mxfp8 = bool(set(converters) & set(MXFP8))
    others = [name for name in converters if name not in (*FLOAT8, *MXFP8, EXPERTS_IN_MXFP8)]
    if EXPERTS_IN_MXFP8 in converters:
        run.decide("/training/moe/fp8_recipe", "mxfp8", "model.converters")
    for setting in run.given("model.converters"):
        if others:
            run.draft.leave_out(setting, f"the converter {others[0]} is not modelled")
        elif by_float8 and by_mxfp8:
            run.draft.complain(setting, "names two converters of the same linears")
    run.idle.add("quantize.linear.float8.filter_fqns")
    if not by_float8:
        known = every_key()
        run.idle.update(key for key in known if "float8" in RENAMED.get(key, key))
        run.idle.update(RENAMED.get(key, key) for key in known if "float8" in key)
    if by_mxfp8:
        _mxfp8(run)
    elif by_float8:
        key, pointer = "quantize.linear.float8.recipe_name", "/training/precision/fp8_recipe"
        recipe = run.reading.value(key, DEFAULT_RECIPE, word)
        if recipe in FLOAT8_RECIPES:
            run.decide(pointer, FLOAT8_RECIPES[recipe], key, "model.converters", switch)
        else:
            _leave_out(run, key, f"the recipe {recipe} is not modelled")


def _mxfp8(run: TorchtitanRun) -> None:
    """A linear that is left out keeps its input as it is, beside the copies of others."""
    key, filter_key = "quantize.linear.mx.recipe_name", "quantize.linear.mx.filter_fqns"
    recipe = run.reading.value(key, MXFP8_RECIPES[0], word)
    if recipe in MXFP8_RECIPES:
        run.decide("/training/precision/fp8_recipe", "mxfp8", key, "model.converters")
    else:
        _leave_out(run, key, f"the recipe {recipe} is not modelled")
    left = run.reading.value(filter_key, [], names)
    if others := [name for name in left if name not in NO_LINEARS_OF_LAYERS]:
        _leave_out(run, filter_key, f"linears that do not narrow ({others[0]}) are not modelled")


def _leave_out(run: TorchtitanRun, key: str, why: str) -> None:
    for setting in run.given(key):
        run.draft.leave_out(setting, why)
