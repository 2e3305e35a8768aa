"""Keeps attention one op on its way through AOTAutograd, in Dynamo's graph, before that takes it apart.

    scaled_dot_product_attention(q, k, v, attn_mask=m)   →   cuesta::attention(q, k, v, bias, causal, scale, route)

First every mask that the graph itself computes is looked at: one that hides nothing is dropped, a
lower triangle becomes `is_causal`. Then, for GPUs, each call that a kernel of ATen's takes whole becomes
a custom op with a backward of its own; the others stay what they are. On CPU torch keeps attention
whole itself.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import guard_or_false

from cuesta.errors import CuestaError
from cuesta.frontend.attention.constant_masks import classify_mask
from cuesta.frontend.attention.mask_nodes import erase_unused, writers_before
from cuesta.frontend.devices import target_of_device
from cuesta.policy.attention_routes import (
    MASK_ALIGNMENT,
    ROUTES,
    AttentionCall,
    choose_route,
    takes_fewer_kv_heads,
)
from cuesta.runtime.dtypes import SPELLING
from cuesta.targets import CPU, Target

_SDPA = torch._C._nn.scaled_dot_product_attention


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
        return {
            "attn_mask": self.attn_mask,
            "dropout_p": self.dropout_p,
            "is_causal": self.is_causal,
            "scale": self.scale,
            "enable_gqa": self.enable_gqa,
        }


def keep_attention_whole(gm: torch.fx.GraphModule, target: Target | None = None) -> None:
    """Rewrites Dynamo's graph in place, and graphs within it.

    `target` is what the user asked for; where None, the device of each call's tensors says.
    """
    for module in list(gm.modules()):
        if isinstance(module, torch.fx.GraphModule):
            _Rewriter(module, target).run()


@dataclass
class _Rewriter:
    gm: torch.fx.GraphModule
    target: Target | None
    #: (mask, writes before it is read, sizes and so on) → the bias that was made of it, which layers share
    biases: dict[tuple[Any, ...], Node] = field(default_factory=dict)
    #: (mask, writes before it is read, sizes) → what it is
    kinds: dict[tuple[Any, ...], str | None] = field(default_factory=dict)
    random_calls: int = 0

    def run(self) -> None:
        calls = list(_calls(self.gm.graph))
        if not calls:
            return
        loose: list[Node] = []
        for node in calls:
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
        """Replaces a mask of the call that is none, or causal."""
        q, k = _meta(call.q), _meta(call.k)
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
        """Replaces the node by the custom op, where a kernel takes it; returns whether one does."""
        output, q, k, v = _meta(node), _meta(call.q), _meta(call.k), _meta(call.v)
        mask = _meta(call.attn_mask)
        if output is None or q is None or k is None or v is None or (mask is None and call.attn_mask is not None):
            return False
        target = self.target_for(q)
        plain = isinstance(call.dropout_p, float | int) and isinstance(call.scale, float | int | None)
        if target is None or not plain or not isinstance(call.is_causal, bool):
            return False
        if mask is not None and (mask.requires_grad or call.is_causal or mask.dim() > 4):
            return False  # no kernel gives the gradient of a mask that is broadcast; the other torch refuses
        if not _aligned(q, k, v) or (q.shape[-3] != k.shape[-3] and not call.enable_gqa):
            return False
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
            # Under autocast the call is done in the type of its output.
            tensors = [graph.cast(n, output.dtype) for n in (call.q, keys, values)]
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
            if order != _kernel_order(route, q) and not _loses_strides(node):
                result = graph.in_order(result, order)
        node.replace_all_uses_with(result)
        self.gm.graph.erase_node(node)
        return True

    def target_for(self, q: torch.Tensor) -> Target | None:
        """What a call on `q` is compiled for; None where torch keeps it whole itself, or nothing is compiled."""
        if self.target is None and q.device.type in ("cuda", "xpu"):
            try:
                return target_of_device(q.device)
            except CuestaError:
                return None  # said again, and to the user, where the graph itself is compiled
        return None if self.target is None or self.target == CPU else self.target


def _relate(call: _Call) -> None:
    """Has Dynamo's guards say that there are as many keys as values, as attention needs: sizes that are marked as open
    have symbols of their own, and a kernel has to know that they are equal."""
    k, v = _meta(call.k), _meta(call.v)
    if k is not None and v is not None and min(k.dim(), v.dim()) > 1:
        guard_or_false(k.shape[-2] == v.shape[-2])


def _stays_fast(node: Node, call: _Call) -> bool:
    """Whether torch has a kernel for a call that is left to it, now that its mask is another.

    What it takes apart it makes a new mask for where it is told "causal": the old one is as good.
    """
    output, q, k, v = _meta(node), _meta(call.q), _meta(call.k), _meta(call.v)
    if not call.is_causal or output is None or q is None or k is None or v is None:
        return True
    if q.device.type != "cpu":
        return output.dtype != torch.float64
    spelling = SPELLING.get(output.dtype, "")
    plain = isinstance(call.dropout_p, float | int) and _aligned(q, k, v)
    asked = AttentionCall(spelling, q.shape, k.shape, v.shape, False, True, float(call.dropout_p) if plain else 0.0)
    return plain and choose_route(asked, CPU) is not None


def _calls(graph: torch.fx.Graph) -> Iterator[Node]:
    """The attention calls outside vmap, grad and the like, which have no rule for our op; none where the
    user chooses kernels within the graph."""
    nesting = 0
    nodes = list(graph.nodes)
    if any(n.op == "call_function" and n.target is torch.nn.attention._sdpa_kernel for n in nodes):
        return
    for node in nodes:
        name = getattr(node.target, "__name__", "")
        nesting += name.endswith("_increment_nesting") - name.endswith("_decrement_nesting")
        if node.op == "call_function" and node.target is _SDPA and nesting == 0:
            yield node


def _meta(node: Any) -> torch.Tensor | None:
    """The fake tensor of a node; None for all but plain strided ones."""
    value = node.meta.get("example_value") if isinstance(node, Node) else None
    plain = isinstance(value, torch.Tensor) and value.layout == torch.strided and not value.is_nested
    return value if plain else None


def _aligned(*tensors: torch.Tensor) -> bool:
    """Whether kernels can read them: four dims, the last one dense."""
    return all(x.dim() == 4 and (x.stride(-1) == 1 or x.shape[-1] == 1) for x in tensors)


def _dim_order(x: torch.Tensor) -> list[int]:
    """The dims of more than one element, outermost in memory first."""
    return sorted((d for d in range(x.dim()) if x.shape[d] != 1), key=lambda d: x.stride(d), reverse=True)


def _kernel_order(route: str, q: torch.Tensor) -> list[int] | None:
    """That of a route's output, in general like q; None where q has elements in the same place."""
    if 0 in q.stride():
        return None
    return [d for d in (0, 2, 1, 3) if q.shape[d] != 1] if route == "efficient" else _dim_order(q)


#: Calls whose result has the same strides whatever their operand's are, and calls that pass an order of dims on.
_CONTIGUOUS = ("contiguous", torch._C._nn.linear)
_PASS_ON = ("transpose", "permute", "swapaxes", "reshape", "flatten")


def _loses_strides(node: Node) -> bool:
    """Whether nobody can tell in what order the node's elements are: eager may take a kernel of other strides."""
    return all(
        user.target in _CONTIGUOUS or (user.target in _PASS_ON and _loses_strides(user)) for user in node.users
    ) and bool(node.users)


def _allowed(target: Target) -> list[str]:
    """The routes that the user's switches leave."""
    if target.device_type != "cuda":
        return list(ROUTES)
    cuda = torch.backends.cuda
    switches = {
        # cuDNN's backward adds up in any order.
        "cudnn": cuda.cudnn_sdp_enabled() and not torch.are_deterministic_algorithms_enabled(),
        "flash": cuda.flash_sdp_enabled(),
        "efficient": cuda.mem_efficient_sdp_enabled(),
    }
    return [route for route, on in switches.items() if on]


_ALL = slice(None, None, None)
#: A call after its first argument that puts a dim behind the heads.
_ADDS_DIM = ((operator.getitem, ((_ALL, _ALL, None, _ALL, _ALL),)), ("unsqueeze", (2,)))


def _unrepeated(node: Node) -> tuple[Node, Any] | None:
    """Keys or values before each head was repeated for a group of q's, with their shape; else the node itself.

    x of reshape(expand(x[:, :, None])), as transformers' models write it.
    """
    whole = _meta(node)
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
    source, middle = _meta(few), _meta(expanded)
    if source is None or middle is None or source.dim() != 4 or middle.dim() != 5 or not _aligned(source):
        return own
    batch, heads, repeats, *rest = middle.shape
    fits = [batch, heads, *rest] == [*source.shape] and [batch, heads * repeats, *rest] == [*whole.shape]
    return (few, source.shape) if fits and isinstance(few, Node) else own


@dataclass
class _Builder:
    """Adds nodes in the place of `node`."""

    graph: torch.fx.Graph
    node: Node

    def call(self, target: Any, *args: Any, **kwargs: Any) -> Node:
        """A function, or a method by its name."""
        method = isinstance(target, str)
        new = (self.graph.call_method if method else self.graph.call_function)(target, args, kwargs)
        new.meta = {k: v for k, v in self.node.meta.items() if k != "example_value"}
        return new

    def cast(self, x: Node, dtype: torch.dtype) -> Node:
        return x if x.meta["example_value"].dtype == dtype else self.call("to", x, dtype)

    def repeat(self, x: Node, times: int) -> Node:
        """Each head of [B, H, S, D], that many times."""
        return self.call("flatten", self.call("expand", self.call("unsqueeze", x, 2), -1, -1, times, -1, -1), 1, 2)

    def in_order(self, x: Node, order: list[int]) -> Node:
        """x with its dims in memory as `order` has them, outermost first."""
        full = [d for d in range(4) if d not in order] + order
        back = [full.index(d) for d in range(4)]
        return self.call("permute", self.call("contiguous", self.call("permute", x, full)), back)

    def bias(self, mask: Node, dtype: torch.dtype, route: str, sizes: list[Any]) -> Node:
        """The mask as the kernel takes it: additive, dense in its last dim, four dims.

        The efficient kernel wants it over all of [B, H, L, S], rows aligned; where nothing differs
        between batches or heads they share one.
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
        """A size of x: a number, or a node where it is symbolic."""
        size = x.meta["example_value"].shape[dim]
        return size if isinstance(size, int) else self.call("size", x, dim)

    def arithmetic(self, function: Any, *numbers: Any) -> Any:
        """A function of sizes."""
        symbolic = any(isinstance(n, Node) for n in numbers)
        return self.call(function, *numbers) if symbolic else function(*numbers)
