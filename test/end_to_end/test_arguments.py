"""What a program is called with is what it was compiled for: checked by the program, copied to fit, or an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import cuesta
from cuesta.errors import InputError

Tensor = torch.Tensor
Function = Callable[..., Any]

#: Inputs whose memory does not hold their values as it lies: lazily conjugated or negated, dense and with gaps.
LAZY: dict[str, Callable[[Tensor], Tensor]] = {
    "dense": lambda z: z.conj(),
    "columns": lambda z: z[:, ::2].conj(),
    "rows of the transposed": lambda z: z.mT[::2].conj(),
    "adjoint": lambda z: z.mH[:, ::3],
    "every fifth": lambda z: z.reshape(-1)[::5].conj(),
    "imaginary part": lambda z: z.conj().imag,
    "negated": lambda z: torch._neg_view(z.real[:, ::2]),
    "negated and conjugated": lambda z: torch._neg_view(z[:, 1::2].conj()),
    "repeated": lambda z: z[0].conj().expand(4, 12),
    "windows": lambda z: z.as_strided((5, 4), (2, 1)).conj(),
    "none": lambda z: z[:0].conj(),
}


def compiled(function: Function, **options: Any) -> Function:
    torch._dynamo.reset()
    return torch.compile(function, backend="cuesta", fullgraph=True, **options)


def numbers() -> Tensor:
    return torch.randn(8, 12, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("kind", LAZY)
@pytest.mark.parametrize("dynamic", [False, True])
def test_lazy_inputs(kind: str, dynamic: bool) -> None:
    x = LAZY[kind](numbers())
    y = compiled(lambda x: x * 2, dynamic=dynamic)(x)
    torch.testing.assert_close(y, x * 2)
    assert y.stride() == (x * 2).stride()


@pytest.mark.parametrize("kind", [kind for kind in LAZY if kind not in ("repeated", "windows")])
def test_lazy_inputs_that_are_written(kind: str) -> None:
    ours, eagers = numbers(), numbers()
    LAZY[kind](eagers).add_(1)
    compiled(lambda x: x.add_(1))(LAZY[kind](ours))
    assert torch.equal(ours, eagers)


def test_what_was_compiled_for_plain_inputs_takes_lazy_ones() -> None:
    """Dynamo's guards see the lazy bits of a graph's inputs, so these are two programs; a gradient's nobody guards."""
    weight = numbers()
    double = compiled(lambda z: z * 2)

    def gradient(f: Function) -> Tensor:
        z = numbers().requires_grad_()
        (f(z).conj() * weight).real.sum().backward()
        assert z.grad is not None
        return z.grad

    torch.testing.assert_close(gradient(double), gradient(lambda z: z * 2))


def test_a_zero_tensor() -> None:
    zero = torch._efficientzerotensor(8, 12)
    assert torch.equal(compiled(lambda x: x + 1)(zero), torch.ones(8, 12))
    with pytest.raises(RuntimeError, match="ZeroTensors are immutable"):
        compiled(lambda x: x.add_(1))(torch._efficientzerotensor(8, 12))


def test_a_storage_that_was_resized() -> None:
    double = compiled(lambda x: x * 2)
    x = torch.randn(8, 8)
    double(x)
    for nbytes in (0, 4, 8 * 8 * 4 - 1):
        x.untyped_storage().resize_(nbytes)
        with pytest.raises(InputError, match=f"its storage holds {nbytes} bytes where 256 are needed"):
            double(x)


def test_elements_that_are_not_aligned() -> None:
    memory = bytearray(4 * 64 + 1)
    x = torch.frombuffer(memory, dtype=torch.float32, offset=1)
    x.copy_(torch.arange(64.0))
    increment = compiled(lambda x: x.add_(1))
    assert increment(x) is x
    assert torch.equal(x, torch.arange(64.0) + 1)


def test_other_strides_of_dims_of_one() -> None:
    double = compiled(lambda x: x * 2)
    for strides in ((8, 1), (1, 1), (100, 1)):
        x = torch.arange(8.0).as_strided((1, 8), strides)
        assert torch.equal(double(x), x * 2)


class Named(torch.Tensor):
    """A class of a user's, which adds nothing."""


def test_a_class_of_a_users() -> None:
    x = torch.randn(4, 4)
    double = compiled(lambda x: x * 2)
    for given in (x, torch.nn.Parameter(x), torch.nn.Buffer(x), x.as_subclass(Named)):
        torch.testing.assert_close(double(given).as_subclass(torch.Tensor), x * 2)


def test_hooks_that_give_back_other_tensors() -> None:
    """Hooks for saved tensors give back what they like; nothing guards what a backward graph is called with."""
    x, weight = torch.randn(6, 6), torch.randn(6, 6)

    def gradient(f: Function, unpack: Callable[[Tensor], Any]) -> Tensor:
        leaf = x.clone().requires_grad_()
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), unpack):
            y = f(leaf)
        y.backward(weight)
        assert leaf.grad is not None
        return leaf.grad

    f = compiled(lambda x: (x.sin() * 3).cos())
    expected = gradient(lambda x: (x.sin() * 3).cos(), lambda t: t)
    torch.testing.assert_close(gradient(f, lambda t: t), expected)
    torch.testing.assert_close(gradient(f, lambda t: t.mT.contiguous().mT), expected)
    with pytest.raises(
        InputError, match=r"it is a torch.float64 of sizes \[6, 6\]; it was compiled for a torch.float32"
    ):
        gradient(f, torch.Tensor.double)
    with pytest.raises(InputError, match=r"it is a torch.float32 of sizes \[3, 6\]"):
        gradient(f, lambda t: t[:3])


def test_a_program_that_is_called_by_hand() -> None:
    """The list is read natively: it has to be a list, of tensors, of the right length."""
    program = cuesta.compile(torch.export.export(torch.nn.Linear(4, 3), (torch.randn(2, 4),)))._program
    tensors = [torch.randn(3, 4), torch.randn(3), torch.randn(2, 4)]
    (expected,) = program(list(tensors))
    (given,) = program(tuple(tensors))  # type: ignore[arg-type]
    assert torch.equal(given, expected)
    assert program.fits(list(tensors)) and not program.fits([*tensors[:2], tensors[2].mT.contiguous().mT])
    for wrong, reason in (
        (tensors[:2], "the program takes 3 tensors, and was given 2"),
        ([*tensors, tensors[0]], "was given 4"),
        ([*tensors[:2], None], "argument 2 of the program: it is a NoneType"),
        ([*tensors[:2], 7], "it is a int"),
        ([*tensors[:2], tensors[2].double()], r"it is a torch.float64 of sizes \[2, 4\]"),
        ([*tensors[:2], tensors[2][:1]], r"it is a torch.float32 of sizes \[1, 4\]"),
        ([*tensors[:2], tensors[2].to("meta")], "it is on meta"),
        ([*tensors[:2], tensors[2].to_sparse()], "it is a torch.sparse_coo tensor"),
    ):
        with pytest.raises(InputError, match=reason):
            program(wrong)  # type: ignore[arg-type]


@torch.library.custom_op("cuesta_test::lazy", mutates_args=())
def lazy(x: Tensor, kind: str) -> Tensor:
    made = {"conjugated": x.clone().conj(), "zero": torch._efficientzerotensor(x.shape, dtype=x.dtype)}
    return made[kind]


@lazy.register_fake
def _(x: Tensor, kind: str) -> Tensor:
    return torch.empty_like(x)


@pytest.mark.parametrize("kind", ["conjugated", "zero"])
def test_lazy_results_of_ops(kind: str) -> None:
    def f(z: Tensor) -> Tensor:
        return torch.ops.cuesta_test.lazy(z + 0, kind) * 2

    torch.testing.assert_close(compiled(f)(numbers()), f(numbers()))


def test_results_in_an_argument_that_was_copied() -> None:
    """A written argument that is returned is the caller's own tensor, not the copy that the program worked on."""
    z = numbers()

    def f(x: Tensor) -> Tensor:
        x.mul_(2)
        return x

    given = z[:, ::2].conj()
    assert compiled(f)(given) is given
    torch.testing.assert_close(given, 2 * numbers()[:, ::2].conj())


def test_writes_to_inference_tensors() -> None:
    """Eager refuses them outside of inference mode, and takes them within."""
    clear = compiled(lambda x: x.zero_())
    clear(torch.ones(3))
    with torch.inference_mode():
        x = torch.ones(3)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode is not allowed"):
        clear(x)
    assert torch.equal(x, torch.ones(3))
    with torch.inference_mode():
        clear(x)
    assert torch.equal(x, torch.zeros(3))


class Flipped(torch.nn.Module):
    """Asserts its input's dtype once it is exported."""

    def forward(self, x: Tensor) -> Tensor:
        return x.flip(0).to(torch.float64)


def test_an_exported_program_refuses_other_layouts() -> None:
    x = torch.ones(3, 4)
    program = cuesta.compile(torch.export.export(Flipped(), (x,)))
    assert torch.equal(program(x), x.double())
    nested = torch.nested.nested_tensor([torch.ones(4)] * 3)
    for other, kind in ((x.to_sparse(), "sparse_coo"), (x.to_sparse_csr(), "sparse_csr"), (nested, "nested")):
        with pytest.raises(InputError, match=f"argument 'x' is a .*{kind} tensor; a strided one was exported"):
            program(other)
