"""Writes the lines of Python that make the arguments of a call, in ordinary forms and in forms unlike the compile's."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from random import Random

Shape = tuple[int, ...]

#: How a tensor's elements are laid out in memory.
LAYOUTS = ("dense", "transposed", "gaps", "part", "rows", "inner", "expanded", "windows", "ones", "backwards")
_FLOATS = ("float32", "float64", "float16", "bfloat16")
_COMPLEX = {"float32": "complex64", "float64": "complex128"}
#: dtype → another dtype of the same element size.
_SAME_SIZE = {"float32": "int32", "int32": "float32", "float64": "int64", "int64": "float64", "uint8": "bool"}


@dataclass(frozen=True)
class Form:
    """The properties of an argument that Dynamo's guards may check."""

    layout: str = "dense"
    #: one of `lazy_ways`: the conjugate or negative bit, or a view that may set one; "" for none
    lazy: str = ""
    #: one of `kinds`: what the argument is if not a plain tensor; "" for a plain tensor
    kind: str = ""
    gradient: bool = False

    @property
    def text(self) -> str:
        said = [self.lazy, self.kind, "" if self.layout == "dense" else self.layout, "grad" if self.gradient else ""]
        return " ".join(word for word in said if word)


@dataclass(frozen=True)
class Place:
    """The location of an argument's memory, which no guard checks: `offset` elements after the beginning of a block of
    the kind `where`."""

    where: str = "torch"
    offset: int = 0

    @property
    def text(self) -> str:
        said = ["" if self.where == "torch" else self.where, f"offset {self.offset}" if self.offset else ""]
        return " ".join(word for word in said if word)


def lazy_ways(dtype: str) -> tuple[str, ...]:
    """The values of `Form.lazy` for a dtype: ways to make a tensor with lazy bits."""
    if dtype.startswith("complex"):
        return ("conj", "neg", "conj neg", "mH")
    if dtype in _COMPLEX:
        return ("neg", "imag", "real")
    return ("neg",) if dtype != "bool" and dtype != "uint8" else ()


def kinds(dtype: str) -> tuple[str, ...]:
    """The values of `Form.kind` for a dtype, other than a plain tensor."""
    found = ["Plain", "Telling", "zero tensor", "meta", "sparse", "gone", "buffer", "inference", "viewed"]
    found += ["parameter"] if dtype in _FLOATS or dtype.startswith("complex") else []
    return (*found, *(("bits",) if dtype in _SAME_SIZE else ()))


def argument_lines(
    name: str, sizes: Shape, dtype: str, form: Form, place: Place, seed: int, memory: str = ""
) -> list[str]:
    """The lines that make an argument; a part of the tensor named `memory` if that is given."""
    if form.kind == "zero tensor":
        return [f"{name} = torch._efficientzerotensor({sizes}, dtype=torch.{dtype})"]
    of = _COMPLEX[dtype] if form.lazy in ("imag", "real") else dtype
    laid = _swapped(sizes) if form.lazy == "mH" else sizes
    view, count = _laid_out(laid, form.layout)
    own = not memory
    if own:
        where = "inference" if form.kind == "inference" else place.where
        made = _SAME_SIZE[dtype] if form.kind == "viewed" and dtype in _SAME_SIZE and dtype != "uint8" else of
        memory = f'memory({count + place.offset}, "{made}", "{where}", {seed})'
        if made != of:
            memory = f"{memory}.view(torch.{of})"
    part = f"[{place.offset}:{place.offset + count}]" if place.offset or not own else ""
    text = _lazily(f"{memory}{part}{view}", form.lazy)
    if form.kind == "inference":
        lines = ["with torch.inference_mode():", f"    {name} = {text}"]
    else:
        lines = [f"{name} = {text}"]
    if form.gradient and form.kind not in ("parameter", "inference"):
        lines.append(f"{name}.requires_grad_()")
    return lines + [f"{name} = {_as_kind(name, dtype, form)}"] * (_as_kind(name, dtype, form) != name)


def _swapped(sizes: Shape) -> Shape:
    return (*sizes[:-2], sizes[-1], sizes[-2]) if len(sizes) > 1 else sizes


def _laid_out(sizes: Shape, layout: str) -> tuple[str, int]:
    """The text that views a flat tensor in a layout, and the number of elements that the flat tensor needs."""
    count, rank = math.prod(sizes), len(sizes)
    if layout == "transposed" and rank > 1:
        return f".view({sizes[::-1]}).permute({tuple(range(rank))[::-1]})", count
    if layout == "inner" and rank > 2:
        return f".view({(sizes[0], sizes[2], sizes[1], *sizes[3:])}).transpose(1, 2)", count
    if layout == "gaps" and rank:
        return f".view({(*sizes[:-1], 2 * sizes[-1])})[..., ::2]", 2 * count
    if layout == "part" and rank:
        whole = (*sizes[:-1], sizes[-1] + 3)
        return f".view({whole})[..., 1:-2]", math.prod(whole)
    if layout == "rows" and rank:
        return f".view({(2 * sizes[0], *sizes[1:])})[1::2]", 2 * count
    if layout == "expanded" and rank:
        dim = max(range(rank), key=lambda d: sizes[d])
        one = (*sizes[:dim], 1, *sizes[dim + 1 :])
        return f".view({one}).expand({sizes})", math.prod(one)
    if layout == "windows" and rank:
        return f".as_strided({sizes}, {(1,) * rank})", 1 + sum(max(n - 1, 0) for n in sizes)
    if layout == "ones" and rank:
        return f".as_strided({sizes}, {_odd_strides(sizes)})", count
    if layout == "backwards" and rank > 1:  # channels-last strides, for any rank
        order = (0, *range(2, rank), 1)
        back = tuple(order.index(d) for d in range(rank))
        return f".view({tuple(sizes[d] for d in order)}).permute({back})", count
    return f".view({sizes})", count


def _odd_strides(sizes: Shape) -> Shape:
    """Dense strides, except arbitrary ones where they have no effect: dims of size 1, and tensors without elements."""
    strides, stride = [0] * len(sizes), 1
    for d in reversed(range(len(sizes))):
        free = sizes[d] == 1 or 0 in sizes
        strides[d] = (7 * d + 3) if free else stride
        stride *= max(sizes[d], 1)
    return tuple(strides)


def _lazily(text: str, lazy: str) -> str:
    if lazy == "neg":
        return f"torch._neg_view({text})"
    if lazy == "conj neg":
        return f"torch._neg_view({text}.conj())"
    behind = {"conj": ".conj()", "mH": ".mH", "imag": ".conj().imag", "real": ".real"}
    return text + behind.get(lazy, "")


def _as_kind(name: str, dtype: str, form: Form) -> str:
    if form.kind in ("Plain", "Telling"):
        return f"{name}.as_subclass({form.kind})"
    if form.kind == "parameter":
        return f"torch.nn.Parameter({name}, {form.gradient})"
    if form.kind == "bits":
        return f"{name}.view(torch.{_SAME_SIZE[dtype]})"
    made = {
        "buffer": f"torch.nn.Buffer({name})",
        "meta": f'{name}.to("meta")',
        "sparse": f"{name}.to_sparse()",
        "gone": f"memory.lost({name}.clone())",
    }
    return made.get(form.kind, name)


def random_form(random: Random, sizes: Shape, dtype: str, ordinary: Form) -> Form:
    """An unusual form; at times several properties are unusual."""
    form = ordinary
    chance = random.random()
    if chance < 0.45 and lazy_ways(dtype):
        lazy = random.choice(lazy_ways(dtype))
        lazy = "conj" if lazy == "mH" and len(sizes) < 2 else lazy
        form = replace(form, lazy=lazy, layout=random.choice(LAYOUTS))
    elif chance < 0.75:
        form = replace(form, layout=random.choice(LAYOUTS))
    else:
        form = replace(form, kind=random.choice(kinds(dtype)))
    if random.random() < 0.15 and (dtype in _FLOATS or dtype.startswith("complex")):
        form = replace(form, gradient=not form.gradient)
    return form


def random_place(random: Random, written: bool) -> Place:
    """A random place; not read-only memory if the argument may be `written`."""
    where = random.choice(("torch", "torch", "end", "end", "begin", "odd", "numpy", "dlpack", "shared", "read only"))
    if where == "read only" and written:
        where = "end"
    return Place(where, random.choice((0, 0, 0, 1, 1, 2, 3, 5, 16)))


def needs_own_memory(form: Form) -> bool:
    """Whether an argument of this form cannot share another argument's memory."""
    return form.kind in ("zero tensor", "inference", "viewed", "gone", "meta", "sparse") or form.lazy in (
        "imag",
        "real",
    )


def block_size(sizes: Shape, layout: str) -> int:
    """The number of elements of memory that a layout needs."""
    return _laid_out(sizes, layout)[1]
