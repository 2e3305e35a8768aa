"""A function of the cuesta dialect runs as it stands, and says what stops it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from cuesta._mlir import ir
from cuesta.dialects import make_context
from cuesta.dialects.cuesta import REFERENCES, Cuesta
from cuesta.dialects.reference import run_reference
from cuesta.errors import CuestaError, ExecutionError, Unsupported, VerifyError


@pytest.fixture(autouse=True)
def context() -> Iterator[None]:
    with make_context():
        yield


def run(body: str, *inputs: torch.Tensor, name: str = "graph") -> list[torch.Tensor]:
    return run_reference(ir.Module.parse(body), list(inputs), name)


SOFTMAX = """
func.func @other(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }
func.func @graph(%x: tensor<2x3xf32>, %w: tensor<3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %0 = "cuesta.mul"(%x, %w) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %1 = "cuesta.softmax"(%0) {dim = 1, safe = 0} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0, %1 : tensor<2x3xf32>, tensor<2x3xf32>
}
"""


def test_ops_run_in_order() -> None:
    x, w = torch.randn(2, 3), torch.randn(3)
    product, softmax = run(SOFTMAX, x, w)
    torch.testing.assert_close(product, x * w, rtol=0, atol=0)
    torch.testing.assert_close(softmax, (x * w).softmax(1), rtol=0, atol=0)


def test_function_by_name() -> None:
    x = torch.randn(2)
    assert run(SOFTMAX, x, name="other")[0] is x
    with pytest.raises(CuestaError, match="no function 'main'; it has 'other', 'graph'"):
        run(SOFTMAX, x, name="main")


def test_inputs_that_do_not_fit() -> None:
    with pytest.raises(CuestaError, match="takes 2 tensors, got 1"):
        run(SOFTMAX, torch.randn(2, 3))
    with pytest.raises(CuestaError, match="argument 1 of 'graph' is tensor<3xf32>, got tensor<4xf32>"):
        run(SOFTMAX, torch.randn(2, 3), torch.randn(4))
    with pytest.raises(CuestaError, match="got tensor<2x3xi64>"):
        run(SOFTMAX, torch.ones(2, 3, dtype=torch.int64), torch.randn(3))


def test_call_with_positions_leaves_out_what_is_none() -> None:
    body = """func.func @graph(%x: tensor<4x6xf32>, %s: tensor<4x1xf32>, %w: tensor<6xf32>) -> tensor<6xf32> {
      %b = "aten.call"(%x, %x, %s, %s, %w, %w) {
        overload = "aten.native_layer_norm_backward.default",
        args = "[\\"%0\\", \\"%1\\", [6], \\"%2\\", \\"%3\\", \\"%4\\", \\"%5\\", [false, false, true]]",
        positions = [2], result_strides = [[1]], reason = "-"
      } : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x1xf32>, tensor<4x1xf32>, tensor<6xf32>, tensor<6xf32>)
        -> tensor<6xf32>
      return %b : tensor<6xf32>
    }"""
    x = torch.randn(4, 6)
    torch.testing.assert_close(run(body, x, torch.ones(4, 1), torch.ones(6))[0], x.sum(0))


def test_call_sees_the_strides_that_it_was_traced_with() -> None:
    body = """func.func @graph(%x: tensor<2x3xf32>) -> tensor<6xf32> {
      %0 = "aten.call"(%x) {
        overload = "aten.as_strided.default", args = "[\\"%0\\", [6], [1]]", reason = "-",
        operand_strides = [[1, 2]], result_strides = [[1]]
      } : (tensor<2x3xf32>) -> tensor<6xf32>
      return %0 : tensor<6xf32>
    }"""
    (flat,) = run(body, torch.arange(6.0).reshape(2, 3))
    assert flat.tolist() == [0, 3, 1, 4, 2, 5]


def test_failing_op_is_named_with_its_location() -> None:
    body = """func.func @graph(%x: tensor<3xf32>, %i: tensor<2xi64>) -> tensor<2xf32> {
      %0 = "cuesta.index"(%x, %i) {dims = [0]} : (tensor<3xf32>, tensor<2xi64>) -> tensor<2xf32> loc("model.py":7:1)
      return %0 : tensor<2xf32>
    }"""
    with pytest.raises(ExecutionError, match=r'cuesta.index failed: .*out of.*"model.py":7:1'):
        run(body, torch.randn(3), torch.tensor([0, 3]))


def test_op_without_reference() -> None:
    with pytest.raises(Unsupported, match="arith.negf has no reference"):
        run(
            "func.func @graph(%x: tensor<3xf32>) -> tensor<3xf32> {"
            "%0 = arith.negf %x : tensor<3xf32> return %0 : tensor<3xf32> }",
            torch.randn(3),
        )


def test_result_of_another_type_than_claimed() -> None:
    body = """func.func @graph(%x: tensor<2x3xf32>) -> tensor<6xf32> {
      %0 = "cuesta.relu"(%x) : (tensor<2x3xf32>) -> tensor<6xf32>
      return %0 : tensor<6xf32>
    }"""
    with pytest.raises(VerifyError, match="cuesta.relu claims tensor<6xf32>, its reference gave tensor<2x3xf32>"):
        run(body, torch.randn(2, 3))


def test_every_op_has_a_reference() -> None:
    names = {cls.OPERATION_NAME for cls in Cuesta.operations}
    assert names <= set(REFERENCES)
    assert len(names) > 80


def test_depthwise_is_a_convolution_in_channels_last_and_with_negative_steps_its_gradient() -> None:
    x, w = torch.randn(2, 5, 7, 4, requires_grad=True), torch.randn(3, 2, 4)
    body = """
    func.func @graph(%x: tensor<2x5x7x4xf32>, %w: tensor<3x2x4xf32>, %g: tensor<2x5x4x4xf32>) -> (tensor<2x5x4x4xf32>, tensor<2x5x7x4xf32>) {
      %0 = "cuesta.depthwise"(%x, %w) {stride = [1, 1], padding = [1, 0], dilation = [1, 3], spread = [1, 1]} : (tensor<2x5x7x4xf32>, tensor<3x2x4xf32>) -> tensor<2x5x4x4xf32>
      %1 = "cuesta.depthwise"(%g, %w) {stride = [1, 1], padding = [-1, 0], dilation = [-1, -3], spread = [1, 1]} : (tensor<2x5x4x4xf32>, tensor<3x2x4xf32>) -> tensor<2x5x7x4xf32>
      return %0, %1 : tensor<2x5x4x4xf32>, tensor<2x5x7x4xf32>
    }
    """  # noqa: E501
    images, weight = x.permute(0, 3, 1, 2), w.permute(2, 0, 1).unsqueeze(1)
    expected = torch.conv2d(images, weight, None, 1, (1, 0), (1, 3), 4).permute(0, 2, 3, 1)
    gradient = torch.randn_like(expected)
    found, back = run(body, x.detach(), w, gradient)
    torch.testing.assert_close(found, expected.detach())
    torch.testing.assert_close(back, torch.autograd.grad(expected, x, gradient)[0])


def test_the_parts_of_a_depthwise_weights_gradient_sum_to_it() -> None:
    x, w = torch.randn(4, 8, 7, 3), torch.randn(3, 1, 3, 2, requires_grad=True)
    expected = torch.conv2d(x.permute(0, 3, 1, 2), w, None, (2, 1), (1, 0), (1, 3), 3)
    gradient = torch.randn_like(expected)
    body = """
    func.func @graph(%x: tensor<4x8x7x3xf32>, %g: tensor<2x2x2x2x4x3xf32>) -> tensor<2x2x3x2x3xf32> {
      %0 = "cuesta.depthwise_weight"(%x, %g) {stride = [2, 1], padding = [1, 0], dilation = [1, 3]} : (tensor<4x8x7x3xf32>, tensor<2x2x2x2x4x3xf32>) -> tensor<2x2x3x2x3xf32>
      return %0 : tensor<2x2x3x2x3xf32>
    }
    """  # noqa: E501
    (parts,) = run(body, x, gradient.permute(0, 2, 3, 1).reshape(2, 2, 2, 2, 4, 3))
    (exact,) = torch.autograd.grad(expected, w, gradient)
    torch.testing.assert_close(parts.sum([0, 1]).permute(2, 0, 1).unsqueeze(1), exact)
