"""Log-probabilities of whole samples, by which losses of preferences compare a policy with a
reference model: DPO's, ORPO's, CPO's, SimPO's and KTO's. Symbols: estimator.legend; C a chunk of
tokens or of the vocabulary.

A reference runs when the policy has, without gradients, while what the policy keeps waits for
backward. Sources: TRL's trainer/dpo_trainer.py (concatenated_forward, get_batch_logps,
_compute_loss) at every release since 0.9, trainer/utils.py (selective_log_softmax,
entropy_from_logits), kernels/chunked_logprob.py, orpo_trainer.py and cpo_trainer.py at every
release since 0.9 (concatenated_forward, under experimental/ since 0.26), kto_trainer.py at every
release since 0.9 (forward, _compute_kl_logps, _compute_loss; under experimental/ from 0.26 to 1.7);
accelerate's utils/operations.py (convert_to_fp32); LLaMA-Factory's train/dpo/trainer.py and
train/kto/trainer.py; ms-swift's rlhf_trainers/dpo_trainer.py, kto_trainer.py and rlhf_mixin.py
(get_per_token_logps); OpenRLHF's trainer/dpo_trainer.py, models/actor.py (forward) and
models/utils.py (log_probs_from_logits), flash-attn's ops/triton/cross_entropy.py; torchtune's
rlhf/sequence_processing.py (get_batch_log_probs, logits_to_logprobs), recipes/lora_dpo_*.py,
full_dpo_distributed.py (concatenated_forward, train).
"""

from typing import Literal, NamedTuple

from trainfit.estimator.demands import Product
from trainfit.estimator.ledger import OperationKind, OperationPeak, Tensors
from trainfit.estimator.operations.pytorch import Modules
from trainfit.estimator.operations.widths import FP32, INT64
from trainfit.estimator.program import highest
from trainfit.estimator.tensors import Tensor
from trainfit.resolve.pytorch.plan import Preference


class Way(NamedTuple):
    """How somebody's code comes from logits to log-probabilities.

    `at_once`: of all samples, not of one after the other. `copied`: of a copy of the logits,
    without the last token's; `cut`: of a part of them; else of all. `returned`: the logits are
    held beside until the loss is known. `averaged`: those of tokens with a loss are copied for
    their mean. `all_hidden`: the model returns what every layer makes. `entropy`: computed of the
    policy's logits in the end, 128 tokens at a time. `always_nll`: the cross entropy of chosen
    samples is computed even where no loss reads it. `nll_first`: it is computed before the
    log-probabilities, not behind them. Logits are made `wide` whatever they are. `fused`: one
    kernel reads them, and makes nothing of their size but their gradient. They are `divided` by a
    temperature, as a copy, `halved` where chosen and rejected samples are looked at apart. Those of
    the reference `linger` until it runs again.

    Of KTO: logits of desirable and of undesirable samples are copied apart, and these `labelled`
    copies are held until the loss is known, of the reference too where its logits are not
    returned, or made late, those of tokens with a loss once more.
    `mismatched` samples, prompts with the completions of others, run beside without gradients:
    their logits wait while those of the others are looked at, or those while theirs are.

    A reference `learns` whose weights are loaded as the policy's are, as if to have gradients.
    """

    at_once: bool = False
    copied: bool = False
    cut: bool = True
    returned: bool = False
    averaged: bool = False
    all_hidden: bool = False
    entropy: bool = False
    always_nll: bool = False
    nll_first: bool = False
    wide: bool = False
    fused: bool = False
    divided: bool = False
    halved: bool = False
    lingers: bool = False
    labelled: Literal["no", "held", "late"] = "no"
    mismatched: bool = False
    learns: bool = False


BY = {
    "trl-0.9": Way(at_once=True, returned=True, always_nll=True),
    "trl-0.12": Way(at_once=True, averaged=True),
    "trl-0.15": Way(cut=False, averaged=True),
    "trl-0.19": Way(cut=False, averaged=True, all_hidden=True),
    "trl-0.29": Way(copied=True, returned=True, entropy=True, learns=True),
    "trl-1.6": Way(returned=True, entropy=True, learns=True),
    "trl-1.15": Way(learns=True),
    "trl-orpo-0.9": Way(at_once=True, returned=True, nll_first=True),
    "trl-orpo-0.15": Way(returned=True, nll_first=True),
    "trl-kto-0.9": Way(at_once=True, labelled="held", mismatched=True),
    "trl-kto-0.15": Way(labelled="held", mismatched=True),
    "trl-kto-0.17": Way(labelled="held"),
    "trl-kto-1.6": Way(copied=True, returned=True, labelled="held", learns=True),
    "trl-kto-1.7": Way(returned=True, labelled="held", learns=True),
    "trl-kto-1.8": Way(returned=True, labelled="held", entropy=True, learns=True),
    "trl-kto-1.9": Way(returned=True, labelled="late", entropy=True, learns=True),
    "llama-factory": Way(at_once=True, returned=True, wide=True),
    "llama-factory-kto": Way(at_once=True, wide=True, labelled="held", mismatched=True),
    "ms-swift": Way(cut=False),
    "openrlhf": Way(cut=False, wide=True, fused=True),
    "torchtune-lora": Way(at_once=True, wide=True, divided=True, lingers=True),
    "torchtune-full": Way(at_once=True, wide=True, divided=True, halved=True),
}
ENTROPY_TOKENS = 128
TILE = (4096, 32768)
"""Tokens and rows of the vocabulary whose logits are there at once since 1.15."""


def log_probabilities(step: Modules, x: Tensor, made: Tensor, by: Preference) -> None:
    """From logits `made` [n, V] of the policy, which accelerate widens behind a model under
    autocast, and those of the reference, to the loss.
    """
    way = BY[by.by]
    policy = _Logits(step, x, made, way)
    nll = way.always_nll or by.chosen_nll
    hidden = policy.hidden() if step.way.step.checkpointing.kind == "none" else ()
    kept = policy.kept
    of_nll = (policy.half("log-probabilities of chosen samples"),) if nll else ()
    saved = (kept, *of_nll[: by.chosen_nll], *policy.lingering(by.reference))
    step.operation(
        "log_probabilities",
        saves=(*saved, step.tensor("labels", step.sizes.n, width=INT64)),
        borrows=highest(*policy.forward(of_nll), saved=saved).beside(*hidden),
        backward=policy.backward(nll=by.chosen_nll),
        kind=OperationKind.LOSS,
    )
    held = (*policy.held, *(of_nll[by.chosen_nll :] if way.returned else ()))
    held = tuple([each for each in held if each not in saved])
    logits: Tensors = ()
    if by.reference != "none":
        like = _Logits(step, x, step.tensor("logits of the reference", *made.shape), way)
        waiting = (*held, *like.waiting)
        step.operation("reference", borrows=waiting, output=like.made, kind=OperationKind.REFERENCE)
        borrows = highest(*like.without_gradients(nll=way.always_nll)).beside(*held, *like.hidden())
        step.operation("reference_log_probabilities", borrows=borrows)
        logits = like.returned if way.returned else ()
    if way.entropy:
        step.operation("entropy", borrows=highest(*policy.looked_at()).beside(*held, *logits))


class _Logits:
    """Logits of one model, and what is made of them."""

    def __init__(self, step: Modules, x: Tensor, made: Tensor, way: Way) -> None:
        sizes = step.sizes
        self._step, self._x, self.made, self._way = step, x, made, way
        wide = sizes.autocast or way.wide or step.way.step.shifted == "fp32_logits"
        self._width = FP32 if wide else made.width
        self._shape = made.shape
        widens = self._width > made.width
        self._logits = self._whole("logits in fp32") if widens else made
        self._copy = self._whole("logits without the last token's") if way.copied else self._logits
        self._wide = self._width == FP32
        self._labelled = self._whole("logits of desirable and of undesirable samples")
        self.waiting = self._mismatched()
        """Logits of as many samples, while these are looked at."""
        as_read = self._wide and not way.at_once
        self.kept = self._copy if as_read else self._whole("log-probabilities")

    @property
    def returned(self) -> Tensors:
        """The logits, and the copy of them, each once."""
        return tuple(dict.fromkeys((self._logits, self._copy)))

    @property
    def held(self) -> Tensors:
        """What is there until the loss is known."""
        way = self._way
        copies = (self._labelled,) if way.labelled == "held" else ()
        return (*self.returned, *copies) if way.returned else copies

    def _mismatched(self) -> Tensors:
        name = "logits of mismatched samples"
        return (self._whole(name),) if self._way.mismatched else ()

    def hidden(self) -> Tensors:
        """What every layer has read [n', h], and the head, where the model returns it."""
        layers, (rows, h) = self._step.way.num_layers, self._x.shape
        if not self._way.all_hidden:
            return ()
        name = "hidden states of all layers"
        return (self._step.several(name, layers + 1, rows, h, width=self._x.width),)

    def lingering(self, reference: str) -> Tensors:
        """The reference's logits, from one step to the next."""
        lingers = self._way.lingers and reference != "none"
        return (self._whole("logits of the last reference"),) * lingers

    def divided(self) -> Tensors:
        """Logits over the temperature."""
        if not self._way.divided:
            return ()
        name = "logits over the temperature"
        return (self.half(name),) if self._way.halved else (self._whole(name),)

    def half(self, name: str) -> Tensor:
        """Of the chosen samples [n / 2, V]."""
        rows, features = self._shape
        return self._step.tensor(name, rows // 2, features, width=self._width)

    def forward(self, of_nll: Tensors) -> list[Tensors]:
        """Its moments where the policy runs, which keeps what backward reads."""
        made, there = self.made, self.returned
        moments: list[Tensors] = [(made, self._logits)] if self._logits is not made else [(made,)]
        by_row = self._wide and not (self._way.at_once or self._way.fused)
        temporaries = self._row("exponentials of a sample") if by_row else ()
        beside = tuple(dict.fromkeys((*there, self.kept)))
        first = of_nll if self._way.nll_first else ()
        if first:
            moments.append((*there, self.half("logits of chosen samples"), *first))
        moments.append((*beside, *temporaries, *first, *self.divided()))
        if self._way.averaged:
            moments.append((*beside, self.half("logits of chosen tokens with a loss")))
        if of_nll and not first:
            moments.append((*beside, self.half("logits of chosen samples"), *of_nll))
        if self._way.labelled == "held":
            moments.append((*beside, self._labelled))
        return [(*moment, *self.waiting) for moment in moments]

    def without_gradients(self, *, nll: bool) -> list[Tensors]:
        """Its moments where nothing is kept."""
        made, there = self.made, self.returned
        moments: list[Tensors] = [(made, self._logits)] if self._logits is not made else [(made,)]
        if self._way.at_once:
            name = "log-probabilities"
            made_of_them = self.half(name) if self._way.halved else self._whole(name)
            moments.append((*there, made_of_them, *self.divided()))
        elif self._wide:
            temporaries = () if self._way.fused else self._row("exponentials of a sample")
            moments.append((*there, *temporaries))
        else:
            name = "log-probabilities of two samples"
            moments.append((*there, *self._row(name), *self._row(name)))
        if self._way.averaged:
            moments.append((*there, self.half("logits of chosen tokens with a loss")))
        if nll:
            names = "logits of chosen samples", "log-probabilities of chosen samples"
            moments.append((*there, *map(self.half, names)))
        if self._way.labelled == "held" and not self._way.returned:
            moments.append((*there, self._labelled))
        return [(*moment, *self.waiting) for moment in moments]

    def looked_at(self) -> list[Tensors]:
        """Moments of what is only told. Of entropy a copy of the logits without the last token's,
        unless there is one, and three tensors of 128 tokens: log-probabilities, probabilities,
        their product. Of the mean of logits labelled copies, and that of tokens with a loss.
        """
        copy = () if self._way.copied else (self._whole("logits without the last token's"),)
        name, features = "log-probabilities, probabilities and product", self._shape[1]
        part = self._step.several(name, 3, ENTROPY_TOKENS, features, width=self._width)
        moments: list[Tensors] = [(*copy, part)]
        if self._way.labelled == "late":
            moments.append((self._labelled, self.half("logits of desirable tokens with a loss")))
        return moments

    def backward(self, *, nll: bool) -> OperationPeak:
        """Gradients of the picked log-probabilities and of the logits they came of, those of
        single samples joined, put where no last token is cut off, and narrowed. Where the cross
        entropy was computed first its gradient comes last, and is added to those in place.
        """
        way, kept = self._way, self.kept
        names = "zeros", "gradient of what is picked"
        last = self._step.passed_back(self.made, "output gradient")
        narrows = self._logits is not self.made
        whole = self._whole("gradient of all logits") if narrows else last
        joined = self._whole("gradient of the logits") if way.cut or way.copied else whole
        if way.halved:
            zeros, picked, first = *map(self.half, names), self.half("log-probabilities")
            moments: list[Tensors] = [(kept, zeros, picked), (first, whole, zeros, picked)]
            moments.append((whole, joined))
        elif way.at_once:
            zeros, picked = map(self._whole, names)
            moments = [(kept, zeros, picked), (kept, picked, joined)]
        elif way.fused:
            moments = [(kept, joined)]
        elif self._wide:
            temporaries = self._row("exponentials of a sample") * 2
            of_rows = self._whole("gradients of the samples")
            moments = [(kept, of_rows, *temporaries), (kept, of_rows, joined)]
            moments.append((kept, joined, *map(self._whole, names)))
        else:
            of_rows = self._whole("gradients of the samples")
            of_picked = [row for name in names for row in self._row(name)]
            # What is kept of a sample goes as the gradient of its logits comes.
            moments = [(kept, *of_picked), (of_rows, joined)]
        moments.append(tuple(dict.fromkeys((joined, whole))))
        if nll and way.nll_first:
            names = "gradient of the cross entropy", "gradient of chosen samples"
            ours, theirs = map(self.half, names)
            moments.append((whole, ours, theirs))
            moments.append((whole, theirs, self._whole("gradient of the chosen among all")))
        if narrows:
            moments.append((whole, last))
        return highest(*moments, saved=(kept,))

    def _row(self, name: str) -> Tensors:
        """Of one sample [s, V]."""
        sizes = self._step.sizes
        return (self._step.tensor(name, sizes.s, self._shape[1], width=self._width),)

    def _whole(self, name: str) -> Tensor:
        return self._step.tensor(name, *self._shape, width=self._width)


def tiled(step: Modules, x: Tensor, n: int) -> None:
    """No logits of the `n` tokens with a loss but those of a tile [C, C]: backward makes each
    again, and adds the gradients of the hidden state [n, h] and of the head [V, h] up in fp32.
    """
    sizes, h = step.sizes, step.sizes.h
    trained = sizes.trains("lm_head")
    tile, again = _tile(step, n), _tile(step, n)
    step.receives("norm_output", x)
    copy = step.tensor("hidden state of tokens with a loss", n, h, width=x.width)
    wide = step.tensor("gradient of the hidden state in fp32", n, h, width=FP32)
    of_head = step.tensor("gradient of the head in fp32", sizes.V, h, width=FP32)
    gradient = step.tensor("weight gradient", sizes.V, h, width=sizes.gradient_bytes)
    adding = (wide, *(of_head,) * trained)
    of_input = step.tensor("gradient of tokens with a loss", n, h, width=x.width)
    of_all = step.passed_back(x, "input gradient")
    step.operation(
        "log_probabilities",
        reads=(x,),
        saves=(copy, step.tensor("log-sum-exp", n, width=FP32)),
        borrows=tile,
        backward=highest((*adding, *again, of_input), (of_input, of_all)),
        leaves=(gradient,) * trained,
        kind=OperationKind.LOSS,
        demands=(Product(n, h, sizes.V, 0, 2 + trained, narrow=False),),
    )


def tiled_reference(step: Modules, by: Preference) -> None:
    """The same of a reference."""
    if by.reference == "none":
        return
    n, h = step.sizes.n, step.sizes.h
    step.operation("reference", kind=OperationKind.REFERENCE)
    hidden = step.several("hidden state, and that of tokens with a loss", 2, n, h)
    step.operation("reference_log_probabilities", borrows=(hidden, *_tile(step, n)))


def _tile(step: Modules, n: int) -> Tensors:
    """Logits of some of the tokens and of some rows of the vocabulary, in a buffer for the most of
    them, and these rows of the head where they are narrowed.
    """
    sizes, rows = step.sizes, min(step.sizes.V, TILE[1])
    narrowed = (step.tensor("head of a tile in the narrow type", rows, sizes.h),) * sizes.narrows
    return (step.tensor("logits of a tile", min(n, TILE[0]), TILE[1]), *narrowed)
