"""Calls into ATen, by each route, from programs of one call."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from cuesta.dialects.host.aten_abi import DTYPE_CODES
from cuesta.errors import ExecutionError
from cuesta.passes.form_kernels.routes import choose_route
from cuesta.runtime.callbacks import PythonCalls
from cuesta.runtime.executable import Executable

Tensor = torch.Tensor
Load = Callable[..., Executable]
CallOf = Callable[..., Executable]
Check = Callable[[Sequence[Tensor], Sequence[Tensor]], None]


ADDMM = """
func.func @graph(%c: memref<5xf32>, %a: memref<4x8xf32>, %b: memref<8x5xf32, strided<[1, 8]>>) -> memref<4x5xf32> {
  %0 = "host.alloc"() {owner = "plan"} : () -> memref<20xf32>
  %1 = "host.view"(%0) {offset = 0} : (memref<20xf32>) -> memref<4x5xf32>
  "host.aten"(%c, %a, %b, %1) {overload = "aten.addmm.default",
    args = "[\\"%0\\", \\"%1\\", \\"%2\\", {\\"kwargs\\": {\\"beta\\": 2.0, \\"alpha\\": 0.5}}]",
    dtypes = ["f32", "f32", "f32", "f32"], reason = "", route = "out"}
    : (memref<5xf32>, memref<4x8xf32>, memref<8x5xf32, strided<[1, 8]>>, memref<4x5xf32>) -> ()
  return %1 : memref<4x5xf32>
}"""


@pytest.mark.parametrize("limit", [0, 1 << 16], ids=["torch allocates", "the caller allocates"])
def test_a_typed_call_writes_into_a_result(load: Load, assert_same: Check, limit: int) -> None:
    c, a, b = torch.randn(5), torch.randn(4, 8), torch.randn(5, 8).t()
    (result,) = load(ADDMM, f"plan-memory{{caller-limit={limit}}}")([c, a, b])
    assert_same([result], [torch.addmm(c, a, b, beta=2, alpha=0.5)])


@pytest.mark.parametrize("route", ["shim", "python"])
def test_results_of_several_dtypes(call_of: CallOf, assert_same: Check, route: str) -> None:
    x = torch.randn(4, 5)
    expected = torch.sort(x, 1, True)
    assert_same(call_of("aten.sort.default", ["%0", 1, True], [x], expected, route)([x]), expected)
    mask = torch.rand(6) > 0.5
    counted = torch.ops.aten.bincount(mask.to(torch.int64))
    assert_same(call_of("aten.bincount.default", ["%0"], [mask.long()], [counted], route)([mask.long()]), [counted])
    inverted = ~mask
    assert_same(call_of("aten.logical_not.default", ["%0"], [mask], [inverted], route)([mask]), [inverted])
    small = torch.tensor([1, 200], dtype=torch.uint8)
    flipped = small.flip(0)
    assert_same(call_of("aten.flip.default", ["%0", [0]], [small], [flipped], route)([small]), [flipped])


@pytest.mark.parametrize("route", ["shim", "python"])
def test_attention_and_its_backward(call_of: CallOf, assert_same: Check, route: str) -> None:
    q, k, v = (torch.randn(2, 8, 3, 4).transpose(1, 2) for _ in range(3))
    name = "aten._scaled_dot_product_flash_attention_for_cpu"
    options = {"kwargs": {"attn_mask": None, "scale": 0.5}}
    forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, False, scale=0.5)
    args = ["%0", "%1", "%2", 0.0, False, options]
    assert_same(call_of(f"{name}.default", args, [q, k, v], forward, route)([q, k, v]), forward)
    operands = [torch.randn_like(forward[0]), q, k, v, *forward]
    backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(*operands, 0.0, False, scale=0.5)
    args = [*(f"%{i}" for i in range(6)), 0.0, False, options]
    assert_same(call_of(f"{name}_backward.default", args, operands, backward, route)(operands), backward)


@pytest.mark.parametrize("route", ["shim", "python"])
def test_convolution_and_the_results_that_its_backward_was_asked_for(
    call_of: CallOf, assert_same: Check, route: str
) -> None:
    x, w, b = torch.randn(1, 3, 8, 8), torch.randn(2, 3, 3, 3), torch.randn(2)
    settings = [[1, 1], [0, 0], [1, 1], False, [0, 0], 1]
    y = torch.ops.aten.convolution(x, w, b, *settings)
    assert_same(
        call_of("aten.convolution.default", ["%0", "%1", "%2", *settings], [x, w, b], [y], route)([x, w, b]), [y]
    )
    grad = torch.randn_like(y)
    _, dw, db = torch.ops.aten.convolution_backward(grad, x, w, [2], *settings, [False, True, True])
    args = ["%0", "%1", "%2", [2], *settings, [False, True, True]]
    executable = call_of("aten.convolution_backward.default", args, [grad, x, w], [dw, db], route, [1, 2])
    assert_same(executable([grad, x, w]), [dw, db])


def test_the_dispatcher_takes_lists_of_optional_tensors_and_strings(call_of: CallOf, assert_same: Check) -> None:
    x, index = torch.randn(3, 4), torch.tensor([2, 0])
    assert choose_route("aten.index.Tensor", '["%0", [null, "%1"]]', []) == "shim"
    picked = x[:, index]
    assert_same(call_of("aten.index.Tensor", ["%0", [None, "%1"]], [x, index], [picked])([x, index]), [picked])
    both = torch.cat([x, x])
    assert_same(call_of("aten.cat.default", [["%0", "%0"], 0], [x], [both])([x]), [both])
    where = torch.zeros(1, 4, dtype=torch.int64)
    mean = torch.scatter_reduce(x, 0, where, x, "mean")
    args = ["%0", 0, "%1", "%0", {"str": "mean"}]
    assert_same(call_of("aten.scatter_reduce.two", args, [x, where], [mean], "shim")([x, where]), [mean])


def test_random_numbers_and_index_gradients_through_the_dispatcher(call_of: CallOf, assert_same: Check) -> None:
    x = torch.rand(64)
    torch.manual_seed(3)
    drawn = torch.ops.aten.bernoulli.p(x, 0.3)
    executable = call_of("aten.bernoulli.p", ["%0", 0.3], [x], [drawn], "shim")
    torch.manual_seed(3)
    assert_same(executable([x]), [drawn])
    grad, index = torch.randn(4, 8), torch.tensor([0, 2, 2, 5])
    expected = torch.ops.aten.embedding_dense_backward(grad, index, 10, -1, False)
    args = ["%0", "%1", 10, -1, False]
    executable = call_of("aten.embedding_dense_backward.default", args, [grad, index], [expected], "shim")
    assert_same(executable([grad, index]), [expected])


def test_what_the_dispatcher_cannot_take_goes_through_python(call_of: CallOf, assert_same: Check) -> None:
    assert choose_route("aten.leaky_relu.default", '["%0", 0.5]', []) == "python"
    x = torch.randn(7)
    expected = torch.nn.functional.leaky_relu(x, 0.5)
    assert_same(call_of("aten.leaky_relu.default", ["%0", 0.5], [x], [expected])([x]), [expected])


def test_a_view_from_python_is_copied_out_of_its_operand(call_of: CallOf, assert_same: Check) -> None:
    x = torch.arange(6.0)
    expected = x.unfold(0, 2, 2).clone()
    executable = call_of("aten.unfold.default", ["%0", 0, 2, 2], [x], [expected])
    (result,) = executable([x])
    x.zero_()
    assert_same([result], [expected])


def test_what_python_raised_is_raised(call_of: CallOf) -> None:
    x = torch.tensor([[1.0, 2.0], [2.0, 4.0]])
    executable = call_of("aten.linalg_cholesky_ex.default", ["%0", {"kwargs": {"check_errors": True}}], [x],
                         [torch.zeros(2, 2).t(), torch.zeros((), dtype=torch.int32)], "python")  # fmt: skip
    for _ in range(2):
        with pytest.raises(torch.linalg.LinAlgError, match="not positive-definite"):
            executable([x])
    good = torch.eye(2) * 4
    assert torch.equal(executable([good])[0], torch.eye(2) * 2)


def test_a_view_from_python_is_copied_on_its_own_device() -> None:
    # A GPU's tensors as far as this machine has them: on the meta device.
    expected = {"sizes": [3, 2], "strides": [2, 1], "dtype": "f32"}
    call = {"overload": "aten.unfold.default", "args": '["%0", 0, 2, 2]', "operands": 1, "positions": None}
    (result,) = PythonCalls([{**call, "results": [expected]}])._run(0, [torch.empty(6, device="meta")])
    assert result.device.type == "meta"


@pytest.mark.parametrize("overload", ["aten.mm.default", "aten.convolution.default"])
def test_tensors_that_torch_was_given_in_inference_mode_serve_outside_it(
    call_of: CallOf, assert_same: Check, overload: str
) -> None:
    settings = [[1, 1], [0, 0], [1, 1], False, [0, 0], 1]
    tensors = [torch.randn(4, 8), torch.randn(8, 5)]
    args: list[Any] = ["%0", "%1"]
    expected = [tensors[0] @ tensors[1]]
    if overload == "aten.convolution.default":
        tensors = [torch.randn(1, 3, 8, 8), torch.randn(2, 3, 3, 3)]
        args += [None, *settings]
        expected = [torch.ops.aten.convolution(*tensors, None, *settings)]
    executable = call_of(overload, args, tensors, expected, "shim")
    for _ in range(2):
        with torch.inference_mode():
            assert_same(executable(tensors), expected)
        (result,) = executable(tensors)
        assert_same([result], expected)
        assert not result.is_inference()
        result.add_(1)


@pytest.mark.parametrize("route", ["shim", "python"])
def test_other_metadata_than_traced_is_refused(call_of: CallOf, route: str) -> None:
    x = torch.randn(4, 5)
    executable = call_of("aten.flip.default", ["%0", [0]], [x], [torch.empty(5, 4)], route)
    with pytest.raises(ExecutionError, match=r"aten.flip.default.*traced with.*sizes \[5, 4\]"):
        executable([x])
    executable = call_of("aten.flip.default", ["%0", [0]], [x], [torch.empty(4, 5, dtype=torch.int32)], route)
    with pytest.raises(ExecutionError, match="aten.flip.default"):
        executable([x])


@pytest.mark.parametrize("route", ["shim", "python"])
def test_other_strides_than_traced_are_laid_out_anew(call_of: CallOf, assert_same: Check, route: str) -> None:
    """Torch's fake kernels do not always foretell the strides that the real ones give."""
    x = torch.randn(4, 5)
    executable = call_of("aten.flip.default", ["%0", [0]], [x], [torch.empty(5, 4).t()], route)
    for _ in range(2):
        (result,) = executable([x])
        assert_same([result], [torch.empty(5, 4).t().copy_(x.flip(0))])


@pytest.mark.parametrize("route", ["shim", "python"])
def test_tensors_without_elements_and_without_dims(call_of: CallOf, assert_same: Check, route: str) -> None:
    empty = torch.empty(0, 3)
    assert_same(call_of("aten.flip.default", ["%0", [0]], [empty], [empty], route)([empty]), [empty])
    scalar = torch.tensor(2.5)
    assert_same(call_of("aten.neg.default", ["%0"], [scalar], [-scalar], route)([scalar]), [-scalar])


def test_dtype_codes_are_torch_s() -> None:
    library = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"))
    for dtype, code in DTYPE_CODES.items():
        assert getattr(library, f"aoti_torch_dtype_{str(dtype).removeprefix('torch.')}")() == code
