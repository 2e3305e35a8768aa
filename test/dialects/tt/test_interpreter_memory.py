"""Loads, stores and atomics of the tt interpreter: masks, strides, ends of memory, order."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cuesta._mlir import arith, ir
from cuesta.dialects import tt
from cuesta.dialects.tt.interpreter import InterpreterError, Kernel

MakeKernel = Callable[..., Kernel]
Value = ir.Value


def less(x: Value, bound: int) -> Value:
    return arith.cmpi(arith.CmpIPredicate.slt, x, tt.full(tuple(x.type.shape), "i32", bound))


def run(kernel: Kernel, programs: int, *tensors: torch.Tensor) -> None:
    storages = [x.untyped_storage() for x in tensors]
    extents = [s.nbytes() - x.storage_offset() * x.itemsize for s, x in zip(storages, tensors, strict=True)]
    kernel.run((programs, 1, 1), [x.data_ptr() for x in tensors], extents)


def positions(block: int, stride: int) -> Value:
    """stride * (block * program + lane)"""
    start = tt.splat(arith.muli(tt.get_program_id(0), tt.constant(block, "i32")), (block,))
    return arith.muli(arith.addi(start, tt.make_range(0, block)), tt.full((block,), "i32", stride))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    size=st.integers(1, 200),
    block=st.sampled_from([1, 8, 32]),
    strides=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.int8, torch.float64, torch.int64, torch.float16]),
)
def test_masked_copy_between_strides(
    kernel: MakeKernel, size: int, block: int, strides: tuple[int, int], dtype: torch.dtype
) -> None:
    spelling = {"bfloat16": "bf16", "float16": "f16", "float32": "f32", "float64": "f64", "int8": "i8", "int64": "i64"}
    name = spelling[str(dtype).removeprefix("torch.")]

    def copy(source: Value, target: Value) -> None:
        mask = less(positions(block, 1), size)
        x = tt.load(tt.addptr(tt.splat(source, (block,)), positions(block, strides[0])), mask)
        tt.store(tt.addptr(tt.splat(target, (block,)), positions(block, strides[1])), x, mask)

    source = torch.randint(-100, 100, (size * strides[0],)).to(dtype)[: (size - 1) * strides[0] + 1].clone()
    target = torch.full(((size - 1) * strides[1] + 1,), 77, dtype=dtype)
    run(kernel(copy, [name, name]), -(-size // block), source, target)
    expected = torch.full_like(target, 77)
    expected[:: strides[1]] = source[:: strides[0]]
    assert torch.equal(target, expected)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(mask=st.lists(st.booleans(), min_size=16, max_size=16))
def test_a_masked_lane_touches_nothing(kernel: MakeKernel, mask: list[bool]) -> None:
    """Lanes whose mask is false point at address 0 and thereabouts: touching it would end the process."""
    source, target = torch.arange(16, dtype=torch.float32), torch.full((16,), -1.0)
    given_mask = torch.tensor(mask, dtype=torch.int8)
    far = torch.where(given_mask.bool(), 0, -(target.data_ptr() // 4)).to(torch.int64)
    far_source = torch.where(given_mask.bool(), 0, -(source.data_ptr() // 4)).to(torch.int64)

    def copy(x: Value, y: Value, chosen: Value, x_offset: Value, y_offset: Value) -> None:
        lanes = tt.make_range(0, 16)

        def at(pointer: Value) -> Value:
            return tt.addptr(tt.splat(pointer, (16,)), lanes)

        wanted = arith.cmpi(arith.CmpIPredicate.ne, tt.load(at(chosen)), tt.full((16,), "i8", 0))
        value = tt.load(tt.addptr(at(x), tt.load(at(x_offset))), wanted, 5.0)
        tt.store(tt.addptr(at(y), tt.load(at(y_offset))), value, wanted)
        everywhere = arith.cmpi(arith.CmpIPredicate.eq, wanted, tt.full((16,), "i1", False))
        tt.store(at(y), value, everywhere)

    run(kernel(copy, ["f32", "f32", "i8", "i64", "i64"]), 1, source, target, given_mask, far_source, far)
    assert torch.equal(target, torch.where(given_mask.bool(), source, 5.0))


def test_without_other_a_masked_lane_is_nothing_to_rely_on(kernel: MakeKernel) -> None:
    def read(x: Value, y: Value) -> None:
        lanes = tt.make_range(0, 8)
        tt.store(tt.addptr(tt.splat(y, (8,)), lanes), tt.load(tt.addptr(tt.splat(x, (8,)), lanes), less(lanes, 4)))

    x, y = torch.ones(8), torch.zeros(8)
    run(kernel(read, ["f32", "f32"]), 1, x, y)
    assert y[:4].tolist() == [1, 1, 1, 1]
    assert y[4:].isnan().all()


def test_scalars(kernel: MakeKernel) -> None:
    def double(x: Value, y: Value) -> None:
        i = tt.get_program_id(0)
        value = tt.load(tt.addptr(x, i))
        tt.store(tt.addptr(y, i), arith.addf(value, value))

    x, y = torch.randn(5), torch.zeros(5)
    run(kernel(double, ["f32", "f32"]), 5, x, y)
    assert torch.equal(y, 2 * x)


def test_one_value_stored_everywhere(kernel: MakeKernel) -> None:
    def fill(x: Value) -> None:
        tt.store(tt.addptr(tt.splat(x, (8,)), positions(8, 1)), tt.full((8,), "f32", 3))

    x = torch.zeros(32)
    run(kernel(fill, ["f32"]), 4, x)
    assert torch.equal(x, torch.full((32,), 3.0))


def test_the_last_program_wins(kernel: MakeKernel) -> None:
    def write(x: Value) -> None:
        tt.store(x, tt.get_program_id(0))

    x = torch.zeros(1, dtype=torch.int32)
    run(kernel(write, ["i32"]), 100, x)
    assert x.item() == 99


def test_three_axes_of_programs(kernel: MakeKernel) -> None:
    def write(x: Value) -> None:
        i, j, k = (tt.get_program_id(a) for a in range(3))
        row = arith.addi(arith.muli(k, tt.constant(3, "i32")), j)
        place = arith.addi(arith.muli(row, tt.constant(4, "i32")), i)
        hundreds = arith.addi(arith.muli(k, tt.constant(100, "i32")), arith.muli(j, tt.constant(10, "i32")))
        tt.store(tt.addptr(x, place), arith.addi(hundreds, i))

    x = torch.zeros(2, 3, 4, dtype=torch.int32)
    kernel(write, ["i32"]).run((4, 3, 2), [x.data_ptr()])
    assert x.tolist() == [[[100 * k + 10 * j + i for i in range(4)] for j in range(3)] for k in range(2)]


def test_an_unmasked_access_outside_its_argument_names_op_and_program(kernel: MakeKernel) -> None:
    def copy(x: Value, y: Value) -> None:
        at = positions(8, 1)
        tt.store(tt.addptr(tt.splat(y, (8,)), at), tt.load(tt.addptr(tt.splat(x, (8,)), at)))

    made = kernel(copy, ["f32", "f32"])
    x, y = torch.zeros(20), torch.zeros(24)
    with pytest.raises(InterpreterError, match=r"'tt.load' at .*:7:0\): program \(2, 0, 0\), lane \[4\]"):
        run(made, 3, x, y)
    with pytest.raises(InterpreterError, match="'tt.store'.* byte 80 of argument 1, which has 80 bytes"):
        run(made, 3, y, x)
    run(made, 3, y, y.clone())


def test_an_access_before_its_argument(kernel: MakeKernel) -> None:
    def read(x: Value, y: Value) -> None:
        tt.store(y, tt.load(tt.addptr(x, tt.constant(-1, "i32"))))

    with pytest.raises(InterpreterError, match="byte -4 of argument 0, which has 16 bytes"):
        run(kernel(read, ["f32", "f32"]), 1, torch.zeros(4), torch.zeros(4))


def test_misaligned(kernel: MakeKernel) -> None:
    def read(x: Value, y: Value) -> None:
        tt.store(y, tt.load(x))

    x, y = torch.zeros(8), torch.zeros(8)
    made = kernel(read, ["f32", "f32"])
    with pytest.raises(InterpreterError, match="an address is not a multiple of 4"):
        made.run((1, 1, 1), [x.data_ptr() + 2, y.data_ptr()])


def test_wrong_number_of_pointers(kernel: MakeKernel) -> None:
    with pytest.raises(InterpreterError, match="kernel takes 2 arguments, not 1"):
        kernel(lambda x, y: None, ["f32", "f32"]).run((1, 1, 1), [0])


ATOMICS: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "add": ("i32", lambda x, y: x + y),
    "fadd": ("f32", lambda x, y: x + y),
    "max": ("i32", max),
    "min": ("i32", min),
    "umax": ("i32", lambda x, y: max(x, y, key=lambda n: n % 2**32)),
    "umin": ("i32", lambda x, y: min(x, y, key=lambda n: n % 2**32)),
    "and": ("i32", lambda x, y: x & y),
    "or": ("i32", lambda x, y: x | y),
    "xor": ("i32", lambda x, y: x ^ y),
    "exch": ("i32", lambda x, y: y),
}


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("name", ATOMICS)
def test_atomics(kernel: MakeKernel, name: str, asked: bool) -> None:
    """64 lanes in 4 programs combine into 3 places; the old values, if anyone asks, are those in program order."""
    element, combine = ATOMICS[name]
    dtype = torch.int32 if element == "i32" else torch.float32

    def update(places: Value, x: Value, total: Value, before: Value) -> None:
        at = positions(16, 1)
        where = tt.load(tt.addptr(tt.splat(places, (16,)), at))
        value = tt.load(tt.addptr(tt.splat(x, (16,)), at))
        mask = arith.cmpi(arith.CmpIPredicate.sge, where, tt.full((16,), "i32", 0))
        old = tt.atomic_rmw(name, tt.addptr(tt.splat(total, (16,)), where), value, mask)
        if asked:
            tt.store(tt.addptr(tt.splat(before, (16,)), at), old, mask)

    places = torch.randint(-1, 3, (64,), dtype=torch.int32)
    x, total = torch.randint(-9, 9, (64,)).to(dtype), torch.tensor([1, 2, 3], dtype=dtype)
    expected, seen = total.tolist(), torch.zeros(64, dtype=dtype)
    for i, place in enumerate(places.tolist()):
        if place >= 0:
            seen[i] = expected[place]
            expected[place] = combine(expected[place], x[i].item())
    before = torch.zeros(64, dtype=dtype)
    run(kernel(update, ["i32", element, element, element]), 4, places, x, total, before)
    assert total.tolist() == expected
    if asked:
        assert torch.equal(before, seen)


def test_atomic_sum_of_bf16_rounds_every_time(kernel: MakeKernel) -> None:
    def add(total: Value) -> None:
        tt.atomic_rmw("fadd", total, tt.constant(1, "bf16"))

    total = torch.zeros(1, dtype=torch.bfloat16)
    run(kernel(add, ["bf16"]), 300, total)
    assert total.item() == 256  # where adding 1 no longer changes it
