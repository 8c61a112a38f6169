"""The calls as torch custom operators, each with a fake kernel: what torch.compile traces.

Eager calls go straight to `_call`, as the dispatcher costs more than the rest of the call.
"""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor
from torch.autograd import forward_ad

from kda._same import Known, remember
from kda.problem import Gate
from kda.torch import _call, _tensors
from kda.torch._call import Ready, Rule
from kda.torch._pool import Paging, Slots
from kda.torch._tensors import Tensors

_READS = (
    "Tensor q, Tensor k, Tensor v, Tensor g, Tensor beta, Tensor? A_log, Tensor? dt_bias, "
    "Tensor? initial_state, Tensor? cu_seqlens"
)
_RULE = (
    "float scale, int gate, float lower_bound, bool beta_is_logit, bool allow_neg_eigval, "
    "bool beta_at_most_one, bool l2norm_qk, bool value_first"
)

_library = torch.library.Library("kda", "FRAGMENT")
_library.define(
    f"forward({_READS}, {_RULE}, bool final_state, bool zeroed) -> (Tensor, Tensor)",
    tags=(torch.Tag.pt2_compliant_tag,),
)
_library.define(
    f"forward_out({_READS}, {_RULE}, Tensor(a!) o, Tensor(b!)? final_state) -> ()",
    tags=(torch.Tag.pt2_compliant_tag,),
)

_library.define(
    f"paged({_READS.replace('Tensor? initial_state', 'Tensor(a!) pool')}, Tensor indices, "
    "Tensor? initial_indices, Tensor? num_accepted_tokens, Tensor? checkpoints, "
    "Tensor? committed_tokens, "
    f"{_RULE}, int checkpoint_tokens, bool zero_padding, bool mixed_lengths, Tensor(b!) o) -> ()",
    tags=(torch.Tag.pt2_compliant_tag,),
)

_ready: Known[Ready] = {}  # of operators; eager calls have their own


def ready_for(rule: Rule, t: Tensors, final_state: bool, slots: Optional[Slots] = None) -> Ready:
    """The Ready of such tensors, made at their first call."""
    there, outline = _tensors.given(t)
    named = None
    if slots is not None:
        named = tuple(x is None for x in slots)
        there += [x for x in slots if x is not None]
    key = rule, final_state, outline, named
    for same, ready in _ready.get(key, ()):
        if same(*there):
            return ready
    ready = _call.prepare(rule, t, final_state, slots)
    remember(_ready, key, there, ready)
    return ready


_PLAIN = (Tensor, torch.nn.Parameter)
_modes = torch._C._len_torch_dispatch_stack
_jit_traces = torch._C._is_tracing  # torch.jit.is_tracing() in a third of its time


def is_traced(q: Tensor) -> bool:
    """Whether q may be no memory at all, or operators alone be recorded: then the call must go
    through its operator.
    """
    return torch.compiler.is_compiling() or type(q) not in _PLAIN or _modes() > 0 or _jit_traces()


def refuse_gradients(name: str, t: tuple[Any, ...], **written: Optional[Tensor]) -> None:
    """No silently detached result: there is no backward pass to record.

    Nor one over a tensor that has a past of its own to send gradients to; torch's out= refuses both.
    """
    if not torch.is_grad_enabled():
        return
    for field, x in (*zip(Tensors._fields, t), *written.items()):
        if x is not None and x.requires_grad:
            raise NotImplementedError(
                f"{name}: {field} requires a gradient, and kda has no backward pass yet; call it "
                "under torch.inference_mode() or torch.no_grad(), or train with "
                "fla.ops.kda.chunk_kda"
            )


def refuse_tangents(name: str, tensors: tuple[Any, ...], **written: Optional[Tensor]) -> None:
    """No silently dropped tangent of forward-mode differentiation, which no_grad leaves on.

    For calls inside a level, `forward_ad._current_level >= 0`; others pay for comparing that.
    """
    for field, x in (*zip(Tensors._fields, tensors), *written.items()):
        if x is not None and forward_ad.unpack_dual(x).tangent is not None:
            raise NotImplementedError(
                f"{name}: {field} carries a tangent, and kda has no forward-mode derivative; call "
                "it outside of torch.func.jvp and forward_ad.dual_level(), or under "
                "torch.inference_mode()"
            )


def _refuse_derivatives(t: Tensors, **written: Optional[Tensor]) -> None:
    """Of operators: programs that were exported or compiled in another mode call nothing before."""
    refuse_gradients("torch.ops.kda", t, **written)
    if forward_ad._current_level >= 0:
        refuse_tangents("torch.ops.kda", t, **written)


def _words_of(rule: Rule) -> tuple[Any, ...]:
    return (
        rule.scale,
        int(rule.gate),
        rule.lower_bound,
        rule.beta_is_logit,
        rule.allow_neg_eigval,
        rule.beta_at_most_one,
        rule.l2norm_qk,
        rule.value_first,
    )


def forward(
    rule: Rule, t: Tensors, final_state: bool, zeroed: bool
) -> tuple[Tensor, Optional[Tensor]]:
    """Through the operator."""
    o, state = torch.ops.kda.forward(*t, *_words_of(rule), final_state, zeroed)
    return o, state if final_state else None


def forward_out(rule: Rule, t: Tensors, o: Tensor, final_state: Optional[Tensor]) -> None:
    """Through the operator."""
    torch.ops.kda.forward_out(*t, *_words_of(rule), o, final_state)


def paged(rule: Rule, t: Tensors, slots: Slots, o: Tensor) -> None:
    """Through the operator."""
    torch.ops.kda.paged(*t, *slots, *_words_of(rule), *rule.paging, o)


def _forward_cuda(*arguments: Any) -> tuple[Tensor, Tensor]:
    *most, final_state, zeroed = arguments
    t = Tensors(*most[:9])
    _refuse_derivatives(t)
    rule = _rule_of(most[9:], torch.float32)
    o, state = _call.launch(ready_for(rule, t, final_state), t, zeroed=zeroed)
    return o, t.q.new_empty(0, dtype=torch.float32) if state is None else state


def _forward_fake(*arguments: Any) -> tuple[Tensor, Tensor]:
    q, _, v, *_, value_first, final_state, _ = arguments
    cu_seqlens = arguments[8]
    N = q.shape[0] if cu_seqlens is None else cu_seqlens.shape[0] - 1
    (HV, V), K = v.shape[2:], q.shape[3]
    states = (N, HV, V, K) if value_first else (N, HV, K, V)
    state = q.new_empty(states if final_state else (0,), dtype=torch.float32)
    return q.new_empty(v.shape), state


def _forward_out_cuda(*arguments: Any) -> None:
    *most, o, final_state = arguments
    t = Tensors(*most[:9])
    _refuse_derivatives(t, o=o, final_state=final_state)
    kept = final_state if final_state is not None else t.initial_state
    rule = _rule_of(most[9:], torch.float32 if kept is None else kept.dtype)
    _tensors.check_out(o, t)  # what tracing saw may have been laid out anew since
    ready = ready_for(rule, t, final_state is not None)
    if final_state is not None:
        assert ready.state is not None
        _tensors.check_final_state(final_state, ready.state[0], t)
    _call.launch(ready, t, o, final_state)
    _call.tell_written((o,) if final_state is None else (o, final_state))


def _nothing(*arguments: Any) -> None:
    """The fake kernel of what only writes to what it is given."""


def _paged_cuda(*arguments: Any) -> None:
    t, slots = Tensors(*arguments[:9]), Slots(*arguments[9:14])
    *words, checkpoint_tokens, zero_padding, mixed_lengths, o = arguments[14:]
    assert t.initial_state is not None
    _refuse_derivatives(t, o=o)
    paging = Paging(checkpoint_tokens, zero_padding, mixed_lengths)
    rule = _rule_of(words, t.initial_state.dtype)._replace(paging=paging)
    _tensors.check_out(o, t)
    _call.launch(ready_for(rule, t, True, slots), t, o, t.initial_state, slots)
    _call.tell_written((t.initial_state, o))


def _rule_of(words: Any, state_type: torch.dtype) -> Rule:
    (scale, gate, lower_bound, beta_is_logit, allow_neg_eigval, beta_at_most_one, l2norm_qk,
     value_first) = words  # fmt: skip
    return Rule(
        scale,
        Gate(gate),
        lower_bound,
        beta_is_logit,
        allow_neg_eigval,
        l2norm_qk,
        value_first,
        state_type,
        beta_at_most_one=beta_at_most_one,
    )


for _name, _cuda, _fake in (
    ("forward", _forward_cuda, _forward_fake),
    ("forward_out", _forward_out_cuda, _nothing),
    ("paged", _paged_cuda, _nothing),
):
    _library.impl(_name, _cuda, "CUDA")
    _library.impl(_name, _cuda, "CPU")  # which refuses in kda's words, as an eager call does
    torch.library.register_fake(f"kda::{_name}", _fake, lib=_library)
