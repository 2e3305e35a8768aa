"""What eager refuses is refused: sizes, dtypes and numbers that do not fit, and values, at run time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils import _pytree as pytree

import cuesta
from cuesta.tools.op_coverage.entries import entries

aten = torch.ops.aten
R = torch.randn
Case = tuple[Callable[..., Any], tuple[Tensor, ...]]


def I(*numbers: Any) -> Tensor:  # noqa: E743
    return torch.tensor(numbers)


WRITES: dict[str, Case] = {
    "a slice": (lambda x, y: x.slice_scatter(y, 1, 4, 10), (R(16, 16), R(16, 8))),
    "a slice, counted from the end": (lambda x, y: x.slice_scatter(y, 0, -4, 100, 2), (R(16), R(3))),
    "a slice of another rank": (lambda x, y: x.slice_scatter(y, 0, 0, 2), (R(4, 4), R(2))),
    "a slice of other rows": (lambda x, y: x.slice_scatter(y, 0, 0, 2), (R(4, 4), R(2, 3))),
    "a row": (lambda x, y: x.select_scatter(y, 0, 1), (R(4, 4), R(2))),
    "a row of another rank": (lambda x, y: x.select_scatter(y, 0, 1), (R(4, 4), R(1, 4))),
    "a diagonal": (lambda x, y: x.diagonal_scatter(y), (R(4, 4), R(2))),
    "a diagonal beside": (lambda x, y: x.diagonal_scatter(y, 1), (R(4, 4), R(4))),
    "rows added": (lambda x, i, y: x.index_add(0, i, y), (R(4, 3), I(0, 1), R(2, 2))),
    "too few rows added": (lambda x, i, y: x.index_add(0, i, y), (R(4, 3), I(0, 1), R(1, 3))),
    "rows of another type copied": (lambda x, i, y: x.index_copy(0, i, y), (R(4, 3), I(0, 1), R(2, 3).double())),
    "rows reduced": (lambda x, i, y: x.index_reduce(0, i, y, "amax"), (R(2), I(0), R(()))),
    "rows reduced by floats": (lambda x, i, y: x.index_reduce(0, i, y, "prod"), (R(2), R(2), R(2))),
    "rows filled": (lambda x, i: x.index_fill(0, i, 2.0), (R(3), I(0, 1).int())),
    "places": (lambda x, i, y: x.index_put((i,), y), (R(4, 3), I(0, 1), R(1, 2, 3))),
    "places that do not broadcast": (lambda x, i, y: x.index_put((i,), y), (R(4, 3), I(0, 1), R(2))),
    "places of another type": (lambda x, i, y: x.index_put((i,), y), (R(4, 3), I(0, 1), R(2, 3).double())),
    "elements": (lambda x, i: x.put(i, x), (R(3), I(0, 1, 2).int())),
    "elements of another type": (lambda x, i, y: x.put(i, y), (R(3), I(0, 1, 2), R(3).double())),
    "under a mask of bytes": (lambda x, m: x.masked_scatter(m, x), (R(3), torch.ones(3).byte())),
}
OTHERS: dict[str, Case] = {
    "batch norm, mixed": (lambda x, w: F.batch_norm(x, None, None, w, training=True), (R(4, 3), R(3).double())),
    "group norm, mixed": (lambda x, w: F.group_norm(x, 3, w), (R(4, 3), R(3).double())),
    "layer norm, mixed": (lambda x, w: F.layer_norm(x, (3,), w), (R(4, 3), R(3).double())),
    "classes as i32": (F.cross_entropy, (R(4, 3), I(0, 1, 2, 1).int())),
    "a loss that its type cannot hold": (F.huber_loss, (I(1, 2, 3), R(3))),
    "a soft margin that broadcasts": (F.soft_margin_loss, (R(3), R(2, 3))),
    "weights that broadcast": (F.binary_cross_entropy_with_logits, (R(3), R(3), R(2, 3))),
    "targets of another type": (F.binary_cross_entropy, (torch.rand(3), torch.rand(3).double())),
    "distances of two types": (lambda x, y: torch.cdist(x, y, p=1), (R(3, 2), R(4, 2).double())),
    "a product of two types": (torch.linalg.cross, (R(4, 3), R(4, 3).double())),
    "classes' weights of another type": (F.cross_entropy, (R(4, 3), I(0, 1, 2, 1), torch.rand(3).double())),
    "weights that are complex": (
        lambda x, w: F.binary_cross_entropy_with_logits(x, x, pos_weight=w),
        (R(3), R(3).to(torch.complex64)),
    ),
    "a row's dim": (lambda x: x.softmax(1), (R(3),)),
    "parts of two types": (torch.complex, (R(3, 2), R(3, 2).double())),
    "steps of two types": (torch.heaviside, (R(3, 2), I(1))),
    "a dim that is not there": (lambda x: x.sort(-3), (R(4, 3),)),
    "a gamma of no dims": (lambda x: torch.mvlgamma(x, 0), (torch.rand(3) + 9,)),
    "an exponent of bools": (torch.ldexp, (R(4), R(4) > 0)),
    "complex numbers cut": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), (R(4), R(4).to(torch.complex64))),
    "a mean of i32": (lambda x: F.avg_pool2d(x, 2), (torch.ones(1, 1, 4, 4, dtype=torch.int32),)),
    "pixels left over": (lambda x: aten.pixel_unshuffle(x, 2), (R(1, 1, 4, 3),)),
}
VALUES: dict[str, Case] = {
    "probabilities": (F.binary_cross_entropy, (R(4) * 9, torch.rand(4))),
    "probabilities that are wanted": (F.binary_cross_entropy, (torch.rand(4), R(4) * 9)),
    "no probabilities": (F.binary_cross_entropy, (torch.full((4,), torch.nan), torch.rand(4))),
    "an index from the end": (lambda x, i: x.gather(0, i), (R(3), I(-1, 2))),
    "rows from the end": (lambda x, i: x.index_select(0, i), (R(3, 2), I(-1, 2))),
    "words": (lambda x, i: F.embedding(i, x), (R(3, 2), I(-1, 2))),
    "bags of words": (lambda x, i: F.embedding_bag(i, x), (R(3, 2), I([-1, 2]))),
    "a class": (F.cross_entropy, (R(2, 3), I(0, -1))),
    "a class with a weight": (F.cross_entropy, (R(2, 3), I(0, -1), torch.rand(3))),
    "the class of one sample": (F.cross_entropy, (R(3), I(-1).squeeze())),
    "the class of a pixel": (F.cross_entropy, (R(1, 3, 2), I([0, -1]))),
    "a margin's class": (F.multi_margin_loss, (R(2, 3), I(0, -1))),
    "where a maximum was": (lambda x, i: F.max_unpool2d(x, i, 2), (R(1, 1, 1, 2), I([[[0, 99]]]))),
    "where a maximum was, before": (lambda x, i: F.max_unpool2d(x, i, 2), (R(1, 2, 1, 1), I([[[0]], [[-1]]])[None])),
    "where a maximum was, in a row": (lambda x, i: F.max_unpool1d(x, i, 2), (R(1, 1, 2), I([[0, 99]]))),
    "where a maximum was, in a volume": (
        lambda x, i: F.max_unpool3d(x, i, (1, 1, 2)),
        (R(1, 1, 1, 1, 2), I([[[[0, 99]]]])[None]),
    ),
    "places said to be safe": (lambda x, i: aten._unsafe_index_put(x, [i], x[:1]), (R(4), I(99))),
    "too few under a mask": (lambda x, y: x.masked_scatter(x < 99, y), (R(3), R(2))),
}


@pytest.mark.parametrize("name", [*WRITES, *OTHERS, *VALUES])
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_it_is_refused(backend: str, name: str, dynamic: bool) -> None:
    f, arguments = (WRITES | OTHERS | VALUES)[name]
    refused = (RuntimeError, IndexError)
    with pytest.raises(refused):
        f(*arguments)
    with pytest.raises(refused) as caught:
        torch.compile(f, backend=backend, dynamic=dynamic)(*arguments)
    assert "VerifyError" not in str(caught.value)


FIT: dict[str, Case] = {
    "a slice": (lambda x, y: x.slice_scatter(y, 1, -10, 100, 3), (R(4, 16), R(4, 4))),
    "a diagonal": (lambda x, y: x.diagonal_scatter(y, -1, 0, 2), (R(4, 3, 5), R(3, 3))),
    "places": (lambda x, i, y: x.index_put((i,), y), (R(4, 3), I(0, 1), R(1, 3))),
    "places from the end": (lambda x, i: (x[i], x.take(i)), (R(4, 3), I(-1, 0))),
    "under a mask, of another type": (lambda x, y: x.index_put((x > 0,), y), (R(4, 3), I(2).squeeze())),
    "narrow floats in a norm of f32": (
        lambda x, w, b: F.layer_norm(x, (3,), w, b),
        (R(4, 3).bfloat16(), R(3), R(3)),
    ),
    "an ignored class": (F.cross_entropy, (R(2, 3), I(0, -100), torch.rand(3))),
    "the ends of a range": (F.binary_cross_entropy, (I(0.0, 1.0, 0.5), I(1.0, 0.0, 0.5))),
    "where a maximum was": (lambda x, i: F.max_unpool2d(x, i, 2), (R(1, 1, 1, 2), I([[[0, 7]]]))),
    "a weight for all": (F.binary_cross_entropy_with_logits, (R(2, 3), R(2, 3), R(3))),
    "i32 and bool": (lambda x, y: torch.div(x, y, rounding_mode="floor"), (R(3) > -99, I(1, 2, 3))),
}


@pytest.mark.parametrize("name", FIT)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_what_fits_is_computed(same_as_eager: Callable[..., Any], name: str, dynamic: bool) -> None:
    f, arguments = FIT[name]
    same_as_eager(f, *arguments, dynamic=dynamic)


def test_a_gradient_keeps_the_check(backend: str) -> None:
    compiled = torch.compile(F.binary_cross_entropy, backend=backend)
    x, y = torch.rand(4, requires_grad=True), torch.rand(4)
    compiled(x, y).backward()
    torch.testing.assert_close(x.grad, torch.autograd.grad(F.binary_cross_entropy(x, y), x)[0])
    with pytest.raises(RuntimeError, match="all elements of input should be between 0 and 1"):
        compiled((x.detach() + 2).requires_grad_(), y)


#: Entries of torch's list of operators whose errors are tried always; all of them with CUESTA_FULL=1.
SOME = (
    *("cat", "gather", "index_add", "index_select", "masked_fill", "masked_scatter", "scatter", "scatter_add", "take"),
    *("argsort", "sort", "kthvalue", "topk", "unbind", "narrow", "roll", "where", "tile", "diag_embed", "renorm"),
    *("nn.functional.avg_pool2d", "nn.functional.max_pool2d", "nn.functional.layer_norm", "nn.functional.group_norm"),
    *("nn.functional.embedding", "nn.functional.hinge_embedding_loss", "nn.functional.soft_margin_loss"),
)


def _error_inputs(every: bool) -> Iterator[tuple[str, Any, Any]]:
    for entry in entries().values():
        if entry.error_inputs_func is not None and (every or entry.full_name in SOME):
            for given in _of_entry(entry):
                yield entry.full_name, entry.op, given.sample_input


def _of_entry(entry: Any) -> list[Any]:
    """Some of torch's functions take a device, others its name."""
    try:
        return list(entry.error_inputs(torch.device("cpu")))
    except AttributeError:
        return list(entry.error_inputs("cpu"))


def _copied(tree: Any) -> Any:
    return pytree.tree_map_only(Tensor, lambda x: x.detach().clone() if x.layout == torch.strided else x, tree)


def _raises(f: Callable[..., Any], sample: Any) -> bool:
    torch._dynamo.reset()
    try:
        f(_copied(sample.input), *_copied(sample.args), **_copied(sample.kwargs))
    except Exception:
        return True
    return False


def _lambda(op: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: op(*args, **kwargs)


@pytest.mark.may_fall_back("what eager raises")
@pytest.mark.filterwarnings("ignore")
def test_the_errors_of_torchs_own_samples(backend: str) -> None:
    """Where eager and aot_eager raise, so does ours: for an aminmax into memory of another type aot_eager does not."""
    tried, accepted = 0, []
    for name, op, sample in _error_inputs(os.environ.get("CUESTA_FULL") == "1"):
        if not _raises(op, sample):  # on another device, or under another dtype, than is tried here
            continue
        tried += 1
        compiled = torch.compile(_lambda(op), backend=backend)
        if not _raises(compiled, sample) and _raises(torch.compile(_lambda(op), backend="aot_eager"), sample):
            accepted.append((name, repr(sample)[:200]))
    assert tried > 60
    assert not accepted


@pytest.mark.parametrize("x", [R(4) > 0, I(1, 2, 3, 4)], ids=["bool", "i64"])
def test_bools_are_exponents_of_what_is_no_float(cuesta_only: None, x: torch.Tensor) -> None:
    exponent = R(4) > 0
    torch.testing.assert_close(torch.compile(torch.ldexp, backend="cuesta")(x, exponent), torch.ldexp(x, exponent))
    assert not any(graph.aten_calls for graph in cuesta.report().graphs)
