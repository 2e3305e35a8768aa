"""Lists the decompositions that AOTAutograd applies before cuesta imports a graph: torch's, and some of cuesta's own.
Ops with an import rule, or with a row in the table of pointwise ops, stay whole."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import torch

from cuesta.cache import Hit, content_key, environment_key, open_cache
from cuesta.frontend.attention import efficient_attention
from cuesta.frontend.decompositions import (
    batch_norm_training,
    checked_values,
    distances,
    embedding_bags,
    encoder_layers,
    mixed_norms,
    paddings,
    trilinear,
)
from cuesta.frontend.decompositions.foreach import foreach_decompositions
from cuesta.frontend.fx_passes import byte_images, operand_layouts
from cuesta.frontend.refused_arguments import is_checked, refuses
from cuesta.frontend.refused_types import refused_type, refused_types
from cuesta.options import Options
from cuesta.torch_private import pytree
from cuesta.torch_private.decompositions import core_decompositions_after_autograd, get_decompositions
from cuesta.torch_private.ops import OpOverload, schema_of
from cuesta.torch_private.symbolic_shapes import guard_or_false, guard_or_true
from cuesta.torch_private.tensors import memory_of

aten = torch.ops.aten

#: Decomposed beyond torch's own core list: batch norm in training, and ops from Inductor's list.
_MORE = (
    *(aten.native_batch_norm, aten.native_batch_norm_backward, aten._native_batch_norm_legit_functional),
    *(aten._native_batch_norm_legit, aten.batch_norm_backward, aten._batch_norm_with_update_functional),
    *(aten._batch_norm_no_update, aten.dist, aten.rrelu_with_noise_backward, aten.tril_indices, aten.triu_indices),
    *(aten.unbind_copy, aten.permute_copy),
)

#: Ops left to ATen's kernels, which do better than the decompositions; more are in frontend/aten/called.py.
_KEEP = frozenset({"aten.convolution_backward", "aten.upsample_bilinear2d"})


def _take(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """As torch's decomposition, without its x[index], which reads a 0-d index as a data-dependent number."""
    result: torch.Tensor = aten.index(x.reshape(-1), [index])
    return result


def _rot90(x: torch.Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> torch.Tensor:
    """With eager's layout; torch's decomposition gives row-major results."""
    match k % 4:
        case 0:
            return x.clone(memory_format=torch.contiguous_format)
        case 2:
            return x.flip(list(dims))
        case quarters:
            return x.flip([dims[1] if quarters == 1 else dims[0]]).transpose(dims[0], dims[1])


def _scattering(op: Any) -> Callable[..., Any]:
    """Scatters into a clone, as eager does, where elements of x share memory. In torch 2.11, elements of the traced
    result would share memory as well."""

    def scatter(x: torch.Tensor, *rest: Any, **kwargs: Any) -> Any:
        sides = zip(x.shape, x.stride(), strict=True)
        # Data-dependent strides and sizes are not known to make elements share memory, and they never do.
        stretched = any(guard_or_false(stride == 0) and guard_or_true(size != 1) for size, stride in sides)
        if not stretched or any(type(size) is int and size == 0 for size in x.shape):  # an empty clone has x's strides
            return NotImplemented
        return op(x.clone(), *rest, **kwargs)

    return scatter


def _vector_norm(
    x: torch.Tensor, ord: float = 2, dim: Sequence[int] | None = None, keepdim: bool = False, **dtype: Any
) -> torch.Tensor:
    """torch's decomposition with dims counted from the front: in 2.11 it keeps a dim of size 1 counted from the end."""
    dims = dim if dim is None else [d % max(x.dim(), 1) for d in dim]
    whole = aten.linalg_vector_norm
    result: torch.Tensor = get_decompositions([whole])[whole.default](x, ord, dims, keepdim, **dtype)
    return result


def _huber_loss(x: torch.Tensor, target: torch.Tensor, reduction: int = 1, delta: float = 1.0) -> torch.Tensor:
    """torch's decomposition with each loss converted to x's type, as in eager."""
    whole = aten.huber_loss
    table = get_decompositions([whole])
    if x.dtype == target.dtype:
        return cast("torch.Tensor", table[whole.default](x, target, reduction, delta))
    losses: torch.Tensor = table[whole.default](x, target, 0, delta).to(x.dtype)
    return losses if reduction == 0 else losses.mean() if reduction == 1 else losses.sum()


def _nll_loss(op: Any, first: int) -> Callable[..., Any]:
    """Decomposes class weights and single samples; the dialect's op computes all other losses. The loss's input is the
    argument `first`."""

    def loss(*args: Any) -> Any:
        x, _, weight = args[first : first + 3]
        return NotImplemented if weight is None and x.dim() == 2 else get_decompositions([op])[op](*args)

    return loss


def _whole(*_: Any, **__: Any) -> Any:
    """Keeps an op with a rule whole. Its entry in the table makes `_unless_refused` check the call's sizes while guards
    can still be added."""
    return NotImplemented


#: cuesta's own decompositions, which take precedence over torch's, and over import rules that take only some calls.
_OURS: dict[Any, Callable[..., Any]] = {
    aten.take.default: _take,
    aten.rot90.default: _rot90,
    aten.linalg_vector_norm.default: _vector_norm,
    **{op.default: _scattering(op.default) for op in (aten.select_scatter, aten.diagonal_scatter, aten.slice_scatter)},
    aten.huber_loss.default: _huber_loss,
    aten.nll_loss_forward.default: _nll_loss(aten.nll_loss_forward.default, 0),
    aten.nll_loss_backward.default: _nll_loss(aten.nll_loss_backward.default, 1),
    **{op.default: _whole for op in (aten.index_add, aten.index_copy, aten.index_reduce, aten.put)},
    **checked_values.DECOMPOSITIONS,
    **byte_images.DECOMPOSITIONS,
    **distances.DECOMPOSITIONS,
    **operand_layouts.DECOMPOSITIONS,
    **paddings.DECOMPOSITIONS,
    **embedding_bags.DECOMPOSITIONS,
    **efficient_attention.DECOMPOSITIONS,
    **encoder_layers.DECOMPOSITIONS,
    **trilinear.DECOMPOSITIONS,
    **batch_norm_training.DECOMPOSITIONS,
    **mixed_norms.DECOMPOSITIONS,
}


def decompositions_of(options: Options) -> dict[Any, Callable[..., Any]]:
    """overload → its decomposition, as AOTAutograd takes it under these options."""
    # On CPU, an op over lists computes what its function computes on each tensor.
    return foreach_decompositions() if options.bitwise_eager else decompositions(options.cache_root)


@functools.cache
def decompositions(root: Path | None = None) -> dict[Any, Callable[..., Any]]:
    """overload → its decomposition, as AOTAutograd takes it.

    The cache in the folder `root` keeps which ops stay whole. Finding that out loads rules and rows and with them MLIR:
    half a second, which a process saves whose graphs are all cached.
    """
    # Not core_aten_decompositions(), which is no plain dict: `|` of it with a dict drops all its entries.
    table = core_decompositions_after_autograd() | get_decompositions(_MORE) | foreach_decompositions() | _OURS
    whole = _whole_ops(table, root)
    return {
        op: _unless_refused(op, _in_own_memory(op, function))
        for op, function in table.items()
        if op in _OURS or str(op) not in whole
    }


def _whole_ops(ops: Iterable[Any], root: Path | None) -> frozenset[str]:
    """The names of those among `ops` that stay whole. The cache's answer is used where it names only ops in `ops`."""
    names = {str(op) for op in ops if isinstance(op, OpOverload)}
    cache, key = open_cache(root), content_key("ops that stay whole", environment_key())
    found = cache.get(key)
    if isinstance(found, Hit):
        kept = frozenset(found.payload.decode(errors="replace").split("\n"))
        if kept <= names:
            return kept

    import cuesta.frontend.aten  # noqa: F401  registers the rules
    from cuesta.dialects.cuesta import pointwise
    from cuesta.frontend.rules import find_rule

    def stays_whole(op: OpOverload) -> bool:
        packet = str(op).rpartition(".")[0]
        has_row = packet.removeprefix("aten.") in pointwise.BY_NAME
        return has_row or packet in _KEEP or find_rule(op) is not None

    whole = frozenset(str(op) for op in ops if isinstance(op, OpOverload) and stays_whole(op))
    cache.put(key, "\n".join(sorted(whole)).encode())
    return whole


def _in_own_memory(op: Any, decomposition: Callable[..., Any]) -> Callable[..., Any]:
    """Clones a decomposition's results that are arguments or views of arguments (padding by 0, a shuffle of one group),
    where the op returns new memory. Otherwise writes to the result would change the argument."""
    schema = schema_of(op)
    if schema.is_mutable or any(result.alias_info is not None for result in schema.returns):
        return decomposition

    @functools.wraps(decomposition)
    def in_own_memory(*args: Any, **kwargs: Any) -> Any:
        results = decomposition(*args, **kwargs)
        given = {memory for x in pytree.tree_leaves((args, kwargs)) if (memory := memory_of(x)) is not None}
        return pytree.tree_map(lambda x: x.clone() if memory_of(x) in given else x, results)

    return in_own_memory


def _unless_refused(op: Any, decomposition: Callable[..., Any]) -> Callable[..., Any]:
    """Keeps calls whole that ATen refuses for their type or other arguments; their decomposition might not raise."""
    if not (refused_types(op) or is_checked(op)):
        return decomposition

    @functools.wraps(decomposition)
    def unless_refused(x: Any, *args: Any, **kwargs: Any) -> Any:
        refused = refused_type(op, [arg for arg in (x, *args) if isinstance(arg, torch.Tensor)], [])
        if refused or refuses(op, (x, *args), kwargs):
            return NotImplemented
        return decomposition(x, *args, **kwargs)

    return unless_refused
