"""The sample kernels through Triton for every target, and what becomes of kernels that it refuses."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest
import torch

from cuesta.errors import CompileError, OutOfResources
from cuesta.export.compile_for import compile_for
from cuesta.lowering.tt_to_binary import triton_versions
from cuesta.lowering.tt_to_binary.device_libraries import name_functions
from cuesta.lowering.tt_to_binary.kernel import KernelBinary, KernelText, pack
from cuesta.lowering.tt_to_binary.kernels import compile_kernels
from cuesta.targets import parse_target

KERNELS = Path(__file__).parent / "kernels"
EM_CUDA, EM_AMDGPU = 190, 224


def sample(name: str, *, warps: int = 4, stages: int = 3) -> KernelText:
    return KernelText(name.partition(".")[0], (KERNELS / f"{name}.mlir").read_text(), warps, stages)


def samples(kind: str) -> list[KernelText]:
    """Every sample; extern_math exists for each kind, as a library names its functions itself."""
    names = [path.name.removesuffix(".mlir") for path in sorted(KERNELS.glob("*.mlir"))]
    return [sample(name) for name in names if "." not in name or name.endswith(f".{kind}")]


def machine_of(code: bytes) -> int:
    assert code[:4] == b"\x7fELF"
    return struct.unpack_from("<H", code, 18)[0]


@pytest.mark.parametrize("target", ["cuda:80", "cuda:90", "cuda:100", "hip:gfx942", "hip:gfx1100"])
def test_every_sample_compiles_for(target: str) -> None:
    kind, _, arch = target.partition(":")
    texts = samples(kind)
    assert [text.name for text in texts] == [
        "column_sum", "dot", "extern_math", "gather", "pointwise", "softmax_row"
    ]  # fmt: skip
    binaries = {b.name: b for b in compile_kernels(texts, parse_target(target), keep_assembly=True)}
    for name, binary in binaries.items():
        assert machine_of(binary.code) == (EM_CUDA if kind == "cuda" else EM_AMDGPU)
        assert binary.symbol == name and name.encode() in binary.code
        assert binary.warps == 4
        assert binary.registers is not None and 0 < binary.registers < 256
        assert binary.spills == 0
        # Triton 3.9 writes "unknown" for the part of AMD's triple that earlier ones leave empty.
        told = rf"\.target sm_{arch}" if kind == "cuda" else rf"-amd-amdhsa-(unknown)?-{arch}"
        assert re.search(told, binary.assembly or "")
    assert binaries["pointwise"].shared == 0
    assert binaries["softmax_row"].shared > 0  # its warps combine their sums there
    assert binaries["dot"].shared >= 16384  # two stages of two 64x32 tiles of f16, at least


def test_warps_and_stages_are_the_kernels() -> None:
    texts = [sample("dot", warps=warps, stages=stages) for warps, stages in ((2, 2), (8, 2), (8, 4))]
    few, many, deep = compile_kernels(texts, parse_target("cuda:80"), keep_assembly=True)
    assert (few.warps, many.warps) == (2, 8)
    assert ".reqntid 64" in (few.assembly or "") and ".reqntid 256" in (many.assembly or "")
    assert deep.shared > many.shared


def test_assembly_is_there_where_it_was_asked_for() -> None:
    (binary,) = compile_kernels([sample("gather")], parse_target("cuda:90"))
    assert binary.assembly is None


def broken(old: str, new: str, of: str = "pointwise") -> KernelText:
    text = sample(of)
    assert old in text.text
    return KernelText("broken", text.text.replace(old, new), text.warps, text.stages)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (broken("(%op, %result, %mask)", "(%op, %nonesuch, %mask)"), "use of undeclared SSA value"),
        (broken("%two = ", "%zwei = "), "use of undeclared SSA value"),
        (broken('"tt.splat"(%x)', '"tt.splash"(%x)'), "unregistered operation 'tt.splash'"),
        (broken("end = 256", "end = 200"), "must match size of range [0, 200), which has 200 elements"),
        (broken("__nv_tanhf", "__nv_nonesuch", "extern_math.cuda"), "Unresolved extern function '__nv_nonesuch'"),
    ],
    ids=["value", "name", "op", "size", "extern"],
)
def test_a_refused_kernel_is_named_with_what_triton_says(
    text: KernelText, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CompileError, match="Triton refuses kernel broken for target cuda:90: ") as caught:
        compile_kernels([text], parse_target("cuda:90"))
    assert words in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_a_kernel_that_is_refused_does_not_take_the_others_along() -> None:
    texts = [broken("end = 256", "end = 200"), sample("gather")]
    with pytest.raises(CompileError, match="kernel broken"):
        compile_kernels(texts, parse_target("cuda:80"))
    assert compile_kernels(texts[1:], parse_target("cuda:80"))[0].symbol == "gather"


def test_too_much_shared_memory_is_an_error_of_its_own() -> None:
    deep = sample("dot", stages=15)
    with pytest.raises(OutOfResources, match="kernel dot needs .* bytes of shared memory") as caught:
        compile_kernels([deep], parse_target("cuda:86"))
    error = caught.value
    assert error.kernel == "dot" and error.resource == "bytes of shared memory"
    assert error.needed > error.limit == 101376
    assert compile_kernels([deep], parse_target("cuda:90"))[0].shared > 101376


def test_a_binary_is_the_same_after_bytes() -> None:
    binary = KernelBinary("k", b"\x7fELF\0\xff", 16, 4, "k_0", None, 8, "ret;")
    assert KernelBinary.from_bytes(binary.to_bytes()) == binary


_HEAD = {"name": "k", "shared": 0, "warps": 4, "symbol": "k", "registers": 1, "spills": 0, "assembly": None}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\1" * 40,
        KernelBinary("k", b"c", 0, 4, "k", 1, 0).to_bytes()[:-30],
        pack({**_HEAD, "shared": "0"}, b"c"),
        pack({**_HEAD, "warps": 4.5}, b"c"),
        pack({**_HEAD, "more": 1}, b"c"),
        pack({}, b"c"),
        struct.pack("<QQ", 100_000, 0) + b"[" * 100_000,
    ],
)
def test_bytes_that_are_no_binary_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a kernel"):
        KernelBinary.from_bytes(data)


@pytest.mark.parametrize(
    ("version", "target", "words"),
    [
        ("3.5.1", "cuda:90", ["target cuda:90 needs Triton 3.6 to 3.9, found 3.5.1", "triton>=3.6,<3.10"]),
        ("3.10.0", "hip:gfx942", ["3.6 to 3.9, found 3.10.0"]),
        ("unknown", "cuda:90", ["found unknown"]),
        ("", "cuda:90", ["no Triton is installed", "install triton>=3.6"]),
        ("3.6.0", "xpu", ["needs Triton 3.3, found 3.6.0", "triton-xpu", "CUESTA_XPU_PYTHON"]),
    ],
)
def test_another_version_of_triton_is_refused(version: str, target: str, words: list[str]) -> None:
    with pytest.raises(CompileError) as caught:
        triton_versions.check_version(version, parse_target(target))
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("version", ["3.6.0", "3.7.1", "3.8.0+git1", "3.9.0"])
def test_versions_in_range_are_taken(version: str) -> None:
    triton_versions.check_version(version, parse_target("cuda:90"))


def test_cache_policies_are_spelled_as_the_version_wants() -> None:
    text = "isVolatile = false, cache = 3 : i32, evict = 1 : i32}"
    assert triton_versions.adapt(text, "3.8.0") == text
    policy = "#tt.cache_policy<cache_modifier = cg, eviction_policy = evict_normal>"
    assert triton_versions.adapt(text, "3.9.0") == f"isVolatile = false, cachePolicy = {policy}}}"


def test_the_oldest_spellings_are_intels() -> None:
    text = 'sym_name = "exp" "arith.trunci"(%0) <{overflowFlags = #arith.overflow<none>}> : (i64) -> i32'
    assert triton_versions.adapt(text, "3.6.0") == text
    assert triton_versions.adapt(text, "3.3.0") == 'sym_name = "cuesta_exp" "arith.trunci"(%0) : (i64) -> i32'


@pytest.mark.parametrize(
    ("symbol", "amd", "intel"),
    [
        ("__nv_tanhf", "__ocml_tanh_f32", "__imf_tanhf"),
        ("__nv_tanh", "__ocml_tanh_f64", "__imf_tanh"),
        ("__nv_erff", "__ocml_erf_f32", "__imf_erff"),
        ("__nv_erf", "__ocml_erf_f64", "__imf_erf"),
        ("__ocml_tanh_f32", "__ocml_tanh_f32", "__ocml_tanh_f32"),
    ],
)
def test_device_functions_are_named_as_the_target_does(symbol: str, amd: str, intel: str) -> None:
    text = f'{{libname = "", symbol = "{symbol}"}}'
    assert name_functions(text, parse_target("cuda:90")) == text
    assert name_functions(text, parse_target("hip:gfx942")) == text.replace(symbol, amd)
    assert name_functions(text, parse_target("xpu")) == text.replace(symbol, intel)


def test_a_product_is_rounded_before_it_is_added() -> None:
    """As between two of eager's ops: x * x - x * x is 0."""
    (kernel,) = compile_for(lambda x, y: x * y + x, (torch.ones(64), torch.ones(64)), "cuda:90").kernels
    assert "mul" in kernel.assembly and "fma" not in kernel.assembly
