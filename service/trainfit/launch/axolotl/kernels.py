"""The kernels of a run of axolotl: of attention, of its plugins' losses, and Liger's.

Sources: axolotl/integrations (cut_cross_entropy, liger).
"""

from __future__ import annotations

from collections.abc import Mapping

from trainfit.launch.axolotl.ring import put_ring
from trainfit.launch.effects import Effect
from trainfit.launch.transformers.run import TrainerRun
from trainfit.launch.transformers.step import put_attention

ATTENTION: Mapping[str, str] = {
    "flash_attention": "flash",
    "sdp_attention": "sdpa",
    "eager_attention": "eager",
}
OTHER_ATTENTION = ("xformers_attention", "flex_attention", "sage_attention")
CUT = "CutCrossEntropyPlugin"
"""It works unless it is told not to (integrations/cut_cross_entropy/args.py)."""
PLUGINS = {CUT, "LigerPlugin", "SwanLabPlugin", "LMEvalPlugin"}
"""Those that are modelled or change no memory of a step."""
LIGER = ("liger_rms_norm", "liger_fused_linear_cross_entropy")
LIGER_GLU = ("liger_glu_activation", "liger_swiglu")
LIGER_REST = ("liger_rope", "liger_layer_norm", "liger_cross_entropy", "liger_rms_norm_gated")
LIGER_ALONE = Effect(
    "Liger's kernels are modelled all together only; each keeps less than what it takes the place "
    "of",
    "lowers",
    "liger_kernel/ops/rms_norm.py, swiglu.py and cross_entropy.py: what save_for_backward has",
    within={"/framework/liger_kernel": True},
)


def put_kernels(run: TrainerRun) -> None:
    """Set the kernel of attention, and what plugins bring along."""
    put_attention(run)
    for key, backend in ATTENTION.items():
        setting = run.arguments.get(key)
        if setting is not None and run.arguments.is_on(key):
            run.draft.put("/training/attention/backend", backend, setting)
    for key in OTHER_ATTENTION:
        setting = run.arguments.get(key)
        if setting is not None and run.arguments.is_on(key):
            run.draft.leave_out(setting, "what this kernel of attention keeps is not modelled")
    put_ring(run)
    plugins = run.arguments.get("plugins")
    listed = [each.rpartition(".")[2] for each in run.arguments.words("plugins")]
    others = sorted(set(listed) - PLUGINS)
    if plugins is not None and others:
        run.draft.leave_out(plugins, f"not modelled: {', '.join(others)}")
    cut = run.arguments.get("cut_cross_entropy")
    cuts = cut is None or run.arguments.is_on("cut_cross_entropy")
    if plugins is not None and CUT in listed and cuts:
        run.draft.put("/training/loss/cross_entropy", "cut", plugins, cut or plugins)
    _put_liger(run, loaded="LigerPlugin" in listed)


def _put_liger(run: TrainerRun, *, loaded: bool) -> None:
    """Liger's kernels are modelled all together, or its loss alone. Without the plugin the keys do
    nothing.
    """
    given = {key: run.arguments.get(key) for key in (*LIGER, *LIGER_GLU, *LIGER_REST)}
    on = {key: each for key, each in given.items() if each and run.arguments.is_on(key) and loaded}
    loss, norms = on.get("liger_fused_linear_cross_entropy"), on.get("liger_rms_norm")
    glu = on.get("liger_glu_activation") or on.get("liger_swiglu")
    if loss and norms and glu:
        run.draft.put("/framework/liger_kernel", True, loss, norms, glu)
        return
    if loss:
        run.draft.put("/training/loss/cross_entropy", "liger", loss)
    for key in ("liger_rms_norm", *LIGER_GLU, "liger_cross_entropy"):
        if key in on:
            run.draft.leave_out(on[key], LIGER_ALONE)
