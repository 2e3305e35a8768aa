"""Replaces attention calls in Dynamo's graph by one custom op each, so that AOTAutograd does not decompose them.

    scaled_dot_product_attention(q, k, v, attn_mask=m)   →   cuesta::attention(q, k, v, bias, causal, scale, route)

First every mask that the graph itself computes is evaluated: a mask that hides nothing is dropped, a
lower triangle becomes `is_causal`. Then, for GPUs, each call that one of ATen's kernels computes whole
becomes a custom op with its own backward; other calls stay as they are. On CPU torch itself keeps
attention whole.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Node

from cuesta.errors import CuestaError
from cuesta.frontend.attention.constant_masks import classify_mask
from cuesta.frontend.attention.four_dims import SDPA, in_four_dims, plain_meta
from cuesta.frontend.constant_nodes import erase_unused, writers_before
from cuesta.frontend.devices import target_of_device
from cuesta.policy.attention_routes import MASK_ALIGNMENT, ROUTES, AttentionCall, choose_route, takes_fewer_kv_heads
from cuesta.runtime.dtypes import SPELLING
from cuesta.targets import CPU, Target
from cuesta.torch_private.fx import chooses_attention
from cuesta.torch_private.symbolic_shapes import guard_or_false

_NARROW = (torch.bfloat16, torch.float16)


@dataclass
class _Call:
    """The arguments of one scaled_dot_product_attention."""

    q: Any
    k: Any
    v: Any
    attn_mask: Any = None
    dropout_p: Any = 0.0
    is_causal: Any = False
    scale: Any = None
    enable_gqa: Any = False

    @staticmethod
    def of(node: Node) -> _Call:
        names = {"query": "q", "key": "k", "value": "v"}
        return _Call(*node.args, **{names.get(k, k): v for k, v in node.kwargs.items()})

    def as_kwargs(self) -> dict[str, Any]:
        """The arguments after q, k and v."""
        return {name: value for name, value in vars(self).items() if name not in ("q", "k", "v")}


def keep_attention_whole(gm: torch.fx.GraphModule, target: Target | None = None) -> None:
    """Rewrites Dynamo's graph and the graphs nested in it, in place.

    `target` is the user's choice; None stands for the device of each call's tensors.
    """
    for module in list(gm.modules()):
        if isinstance(module, torch.fx.GraphModule):
            _Rewriter(module, target).run()


@dataclass
class _Rewriter:
    gm: torch.fx.GraphModule
    target: Target | None
    #: (mask, number of writes before it is read, dtype, route, sizes) → the bias made from the mask; layers share it
    biases: dict[tuple[Any, ...], Node] = field(default_factory=dict)
    #: (mask, number of writes before it is read, sizes) → the mask's kind, by `classify_mask`
    kinds: dict[tuple[Any, ...], str | None] = field(default_factory=dict)
    random_calls: int = 0

    def run(self) -> None:
        calls = list(_calls(self.gm.graph))
        if not calls:
            return
        loose: list[Node] = []
        for found in calls:
            node = in_four_dims(found) if self.has_narrow_kernels(found) else found
            call = _Call.of(node)
            _relate(call)
            loose += [n for n in (call.k, call.v, call.attn_mask) if isinstance(n, Node)]
            given = call.attn_mask
            self.prove_mask(node, call)
            if not self.make_whole(node, call) and call.attn_mask is not given and _stays_fast(node, call):
                node.args, node.kwargs = (call.q, call.k, call.v), call.as_kwargs()
        erase_unused(loose)
        self.gm.recompile()

    # -- masks --------------------------------------------------------------------------------
    def prove_mask(self, node: Node, call: _Call) -> None:
        """Drops the call's mask where it hides nothing or is causal; in the second case sets `is_causal`."""
        q, k = plain_meta(call.q), plain_meta(call.k)
        if not isinstance(call.attn_mask, Node) or q is None or k is None or call.is_causal is not False:
            return
        sizes = (q.shape[-2], k.shape[-2])
        key = (call.attn_mask, len(writers_before(node)), str(sizes))
        if key not in self.kinds:
            self.kinds[key] = classify_mask(call.attn_mask, node, *sizes)
        if self.kinds[key] is not None:
            call.attn_mask, call.is_causal = None, self.kinds[key] == "causal"

    # -- the op -------------------------------------------------------------------------------
    def make_whole(self, node: Node, call: _Call) -> bool:
        """Replaces the node by the custom op where one of ATen's kernels takes the call; returns whether it did."""
        output, q, k, v = plain_meta(node), plain_meta(call.q), plain_meta(call.k), plain_meta(call.v)
        mask = plain_meta(call.attn_mask)
        if output is None or q is None or k is None or v is None or (mask is None and call.attn_mask is not None):
            return False
        target = self.target_for(q)
        plain = isinstance(call.dropout_p, float | int) and isinstance(call.scale, float | int | None)
        if target is None or not plain or not isinstance(call.is_causal, bool):
            return False
        if mask is not None and (mask.requires_grad or call.is_causal or mask.dim() > 4):
            return False  # no kernel gives the gradient of a broadcast mask; torch refuses a mask with `is_causal`
        if not (_aligned(q, k, v) or _pays_to_copy(output, target, q, k, v)):
            return False
        if q.shape[-3] != k.shape[-3] and not call.enable_gqa and not k.shape[-3] == v.shape[-3] == 1:
            return False  # one head of keys and values broadcasts to all queries'
        few_k, few_v = _unrepeated(call.k), _unrepeated(call.v)
        if few_k is None or few_v is None or few_k[1] != few_v[1]:
            few_k, few_v = (call.k, k.shape), (call.v, v.shape)
        causal, p = call.is_causal, float(call.dropout_p)
        shapes = (q.shape, few_k[1], few_v[1][:-1] + v.shape[-1:])
        asked = AttentionCall(SPELLING.get(output.dtype, ""), *shapes, mask is not None, causal, p)
        route = choose_route(asked, target, _allowed(target))
        if route is None:
            return False
        with self.gm.graph.inserting_before(node):
            graph = _Builder(self.gm.graph, node)
            heads = q.shape[1] // few_k[1][1]
            keys, values = few_k[0], few_v[0]
            repeats = heads > 1 and not takes_fewer_kv_heads(route)
            if repeats and keys is not call.k:
                keys, values, repeats = call.k, call.v, False
            # Under autocast the call computes in the type of its output.
            tensors = [graph.dense(graph.cast(n, output.dtype), n) for n in (call.q, keys, values)]
            if repeats:
                tensors[1:] = [graph.repeat(n, heads) for n in tensors[1:]]
            bias = None
            if mask is not None:
                scores = str((q.shape[:3], k.shape[2]))
                where = (call.attn_mask, len(writers_before(node)), output.dtype, route, scores)
                if where not in self.biases:
                    sizes = [*(graph.size(call.q, d) for d in range(3)), graph.size(call.k, 2)]
                    self.biases[where] = graph.bias(call.attn_mask, output.dtype, route, sizes)
                bias = self.biases[where]
            scale = 1 / math.sqrt(q.shape[-1]) if call.scale is None else float(call.scale)
            if p:
                op, extra = torch.ops.cuesta.dropout_attention.default, [p, route, self.random_calls]
                self.random_calls += 1
            else:
                op, extra = torch.ops.cuesta.attention.default, [route]
            whole = graph.call(op, *tensors, bias, causal, scale, *extra)
            result = graph.call(operator.getitem, whole, 0)
            order = _dim_order(output)
            if order != _kernel_order(route, q if _aligned(q) else q.contiguous()) and not _loses_strides(node):
                result = graph.in_order(result, order)
        node.replace_all_uses_with(result)
        self.gm.graph.erase_node(node)
        return True

    def has_narrow_kernels(self, node: Node) -> bool:
        """Whether a call is on a GPU and gives a narrow float, for which the routes' kernels are."""
        output = plain_meta(node)
        target = None if output is None else self.target_for(output)
        return output is not None and target is not None and target.gpu and output.dtype in _NARROW

    def target_for(self, q: torch.Tensor) -> Target | None:
        """The target of a call on `q`; None where torch itself keeps the call whole, or where cuesta has no target."""
        if self.target is None and q.device.type in ("cuda", "xpu"):
            try:
                return target_of_device(q.device)
            except CuestaError:
                return None  # compiling the graph raises this again, for the user to see
        return None if self.target is None or self.target == CPU else self.target


def _relate(call: _Call) -> None:
    """Adds a guard that there are as many keys as values, as attention requires. Sizes that are marked as dynamic have
    separate symbols, and a kernel has to know that these are equal."""
    k, v = plain_meta(call.k), plain_meta(call.v)
    if k is not None and v is not None and min(k.dim(), v.dim()) > 1:
        guard_or_false(k.shape[-2] == v.shape[-2])


def _stays_fast(node: Node, call: _Call) -> bool:
    """Whether torch has a kernel for a call that is left to torch, with the call's new mask.

    Where torch decomposes the call, it would build a mask for `is_causal`: the old mask is as good then.
    """
    output, q, k, v = plain_meta(node), plain_meta(call.q), plain_meta(call.k), plain_meta(call.v)
    if not call.is_causal or output is None or q is None or k is None or v is None:
        return True
    if q.device.type != "cpu":
        return output.dtype != torch.float64
    spelling = SPELLING.get(output.dtype, "")
    plain = isinstance(call.dropout_p, float | int) and _aligned(q, k, v)
    asked = AttentionCall(spelling, q.shape, k.shape, v.shape, False, True, float(call.dropout_p) if plain else 0.0)
    return plain and choose_route(asked, CPU) is not None


def _calls(graph: torch.fx.Graph) -> Iterator[Node]:
    """The attention calls outside vmap, grad and the like, which have no rule for cuesta's op. No calls where
    the user chooses kernels within the graph."""
    nesting = 0
    nodes = list(graph.nodes)
    if any(map(chooses_attention, nodes)):
        return
    for node in nodes:
        name = getattr(node.target, "__name__", "")
        nesting += name.endswith("_increment_nesting") - name.endswith("_decrement_nesting")
        if node.op == "call_function" and node.target is SDPA and nesting == 0:
            yield node


def _aligned(*tensors: torch.Tensor) -> bool:
    """Whether kernels can read the tensors: four dims, the last one dense."""
    return all(x.dim() == 4 and (x.stride(-1) == 1 or x.shape[-1] == 1) for x in tensors)


def _pays_to_copy(output: torch.Tensor, target: Target, *tensors: torch.Tensor) -> bool:
    """Whether copies with a dense last dim, and a kernel that reads them, take less time than what torch does without a
    kernel: on a GPU it multiplies narrow floats in f32."""
    return target.gpu and output.dtype in _NARROW and all(x.dim() == 4 for x in tensors)


def _dim_order(x: torch.Tensor) -> list[int]:
    """The dims of size other than 1, outermost in memory first."""
    return sorted((d for d in range(x.dim()) if x.shape[d] != 1), key=lambda d: x.stride(d), reverse=True)


def _kernel_order(route: str, q: torch.Tensor) -> list[int] | None:
    """The dim order of a route's output, for most routes that of q; None where q has a stride of 0."""
    if 0 in q.stride():
        return None
    return [d for d in (0, 2, 1, 3) if q.shape[d] != 1] if route == "efficient" else _dim_order(q)


#: Calls whose result's strides do not depend on their operand's, and calls that may pass their operand's dim order on.
_CONTIGUOUS = ("contiguous", torch.nn.functional.linear)
_PASS_ON = ("transpose", "permute", "swapaxes", "reshape", "flatten", "squeeze", "unflatten")


def _loses_strides(node: Node) -> bool:
    """Whether no user of the node depends on its strides, so that they may differ from eager's."""
    return all(
        user.target in _CONTIGUOUS or (user.target in _PASS_ON and _loses_strides(user)) for user in node.users
    ) and bool(node.users)


def _allowed(target: Target) -> list[str]:
    """The routes that the user's switches in torch allow."""
    if target.device_type != "cuda":
        return list(ROUTES)
    cuda = torch.backends.cuda
    switches = {
        # cuDNN's backward adds up in no fixed order.
        "cudnn": cuda.cudnn_sdp_enabled() and not torch.are_deterministic_algorithms_enabled(),
        "flash": cuda.flash_sdp_enabled(),
        "efficient": cuda.mem_efficient_sdp_enabled(),
    }
    return [route for route, on in switches.items() if on]


_ALL = slice(None, None, None)
#: Target and arguments, without the first, of calls that insert a dim after the heads.
_ADDS_DIM = ((operator.getitem, ((_ALL, _ALL, None, _ALL, _ALL),)), ("unsqueeze", (2,)))


def _unrepeated(node: Node) -> tuple[Node, Any] | None:
    """Keys or values before each head was repeated for a group of q's heads, with their shape; else the node itself.
    None where the node has no plain tensor.

    Finds x in reshape(expand(x[:, :, None])), as models of the transformers library repeat heads.
    """
    whole = plain_meta(node)
    if whole is None:
        return None
    own = (node, whole.shape)
    if node.op != "call_method" or node.target not in ("reshape", "view", "flatten"):
        return own
    (expanded, *_), few = node.args, None
    if isinstance(expanded, Node) and expanded.op == "call_method" and expanded.target == "expand":
        one = expanded.args[0]
        if isinstance(one, Node) and (one.target, one.args[1:]) in _ADDS_DIM:
            few = one.args[0]
    source, middle = plain_meta(few), plain_meta(expanded)
    if source is None or middle is None or source.dim() != 4 or middle.dim() != 5 or not _aligned(source):
        return own
    batch, heads, repeats, *rest = middle.shape
    fits = [batch, heads, *rest] == [*source.shape] and [batch, heads * repeats, *rest] == [*whole.shape]
    return (few, source.shape) if fits and isinstance(few, Node) else own


@dataclass
class _Builder:
    """Adds nodes with the meta of `node`, which they replace."""

    graph: torch.fx.Graph
    node: Node

    def call(self, target: Any, *args: Any, **kwargs: Any) -> Node:
        """Adds a call of a function, or of a method where `target` is a name."""
        method = isinstance(target, str)
        new = (self.graph.call_method if method else self.graph.call_function)(target, args, kwargs)
        new.meta = {k: v for k, v in self.node.meta.items() if k != "example_value"}
        return new

    def cast(self, x: Node, dtype: torch.dtype) -> Node:
        return x if x.meta["example_value"].dtype == dtype else self.call("to", x, dtype)

    def dense(self, x: Node, source: Node) -> Node:
        """x, which `source` was converted to, with a dense last dim."""
        return x if _aligned(source.meta["example_value"]) else self.call("contiguous", x)

    def repeat(self, x: Node, times: int) -> Node:
        """Repeats each head of [B, H, S, D] `times` times."""
        return self.call("flatten", self.call("expand", self.call("unsqueeze", x, 2), -1, -1, times, -1, -1), 1, 2)

    def in_order(self, x: Node, order: list[int]) -> Node:
        """x copied so that its dims are in memory in the order `order`, outermost first."""
        full = [d for d in range(4) if d not in order] + order
        back = [full.index(d) for d in range(4)]
        return self.call("permute", self.call("contiguous", self.call("permute", x, full)), back)

    def bias(self, mask: Node, dtype: torch.dtype, route: str, sizes: list[Any]) -> Node:
        """Converts a mask to a kernel's form: additive, dense in its last dim, four dims.

        The efficient kernel takes it over all of [B, H, L, S], with aligned rows; batches or heads along
        which the mask is broadcast share memory.
        """
        meta = mask.meta["example_value"]
        x = mask
        for _ in range(4 - meta.dim()):
            x = self.call("unsqueeze", x, 0)
        x = self.call("expand", x, -1, -1, sizes[2], sizes[3])
        if meta.dtype == torch.bool:
            fill = self.call("new_full", x, (), -math.inf, dtype=dtype)
            x = self.call(torch.where, x, self.call("new_zeros", x, (), dtype=dtype), fill)
        else:
            x = self.call("to", x, dtype)
        if route != "efficient":
            return self.call("contiguous", x)
        if isinstance(sizes[3], int) and sizes[3] % MASK_ALIGNMENT == 0:
            x = self.call("contiguous", x)
        else:
            missing = self.arithmetic(operator.mod, self.arithmetic(operator.neg, sizes[3]), MASK_ALIGNMENT)
            padded = self.call("contiguous", self.call(torch.nn.functional.pad, x, (0, missing)))
            x = self.call(operator.getitem, padded, (Ellipsis, slice(None, sizes[3])))
        return self.call("expand", x, *sizes)

    def size(self, x: Node, dim: int) -> Any:
        """The size of x along `dim`: a number, or a node where the size is symbolic."""
        size = x.meta["example_value"].shape[dim]
        return size if isinstance(size, int) else self.call("size", x, dim)

    def arithmetic(self, function: Any, *numbers: Any) -> Any:
        """A function of sizes: a number, or a node where an argument is a node."""
        symbolic = any(isinstance(n, Node) for n in numbers)
        return self.call(function, *numbers) if symbolic else function(*numbers)
