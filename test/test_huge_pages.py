"""Whether large memory is asked for in huge pages: /proc/self/smaps tells of each mapping what was wished for."""

from __future__ import annotations

import mmap
import sys
from pathlib import Path

import pytest
import torch

from cuesta.huge_pages import HUGE_PAGE, LARGE, reports_free_pages, use_huge_pages
from cuesta.runtime.arena import ArenaPool

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="madvise's number is Linux'"),
    pytest.mark.skipif(not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="a kernel without huge pages"),
]


def wished(address: int) -> bool:
    """Whether huge pages are wished for in the mapping around an address."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        head = line.split(" ", 1)[0]
        if "-" in head and not head.endswith(":"):
            first, end = (int(word, 16) for word in head.split("-"))
            inside = first <= address < end
        elif inside and head == "VmFlags:":
            return " hg" in line
    raise AssertionError(f"{address:#x} is in no mapping")


def middle(tensor: torch.Tensor) -> int:
    return tensor.data_ptr() + tensor.nbytes // 2


def test_only_whole_pages_of_the_block_are_asked_for() -> None:
    # A mapping of its own: memory from the heap may be what another test in this process asked for and gave back.
    mapping = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    block = torch.frombuffer(mapping, dtype=torch.uint8)
    inner = -(-block.data_ptr() // HUGE_PAGE) * HUGE_PAGE + 4 * HUGE_PAGE
    assert not wished(inner)
    use_huge_pages(inner - 64, LARGE - 1)
    assert not wished(inner)
    use_huge_pages(inner - 64, 3 * HUGE_PAGE)
    assert wished(inner) and wished(inner + 2 * HUGE_PAGE - 1)
    assert not wished(inner - 1) and not wished(inner + 2 * HUGE_PAGE)


@pytest.mark.parametrize(
    ("kind", "features", "reports"),
    [
        ("0x0005", "01100101", True),
        ("0x0005", "01100001", False),
        ("0x0005", "01", False),
        ("0x0001", "11111111", False),
    ],
)
def test_a_guest_that_gives_free_pages_to_its_host_is_known(
    tmp_path: Path, kind: str, features: str, reports: bool
) -> None:
    (tmp_path / "virtio0").mkdir()
    assert not reports_free_pages(tmp_path) and not reports_free_pages(tmp_path / "none")
    for number, (device, bits) in enumerate([("0x0004", "00000100"), (kind, features)], 1):
        folder = tmp_path / f"virtio{number}"
        folder.mkdir()
        (folder / "device").write_text(f"{device}\n")
        (folder / "features").write_text(f"{bits}\n")
    assert reports_free_pages(tmp_path) is reports


def test_an_arena_is_in_huge_pages() -> None:
    with ArenaPool().lease(64 << 20) as arena:
        assert wished(arena.address + (32 << 20))


def test_what_a_program_returns_is_in_huge_pages() -> None:
    """As memory that the caller makes, and as torch's that the program asks for."""

    def program(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.sin(), torch.cumprod(x, 0).cos() + y

    x, y = torch.randn(2, 16 << 20).unbind()
    for dynamic in (False, True):
        torch._dynamo.reset()
        for result in torch.compile(program, backend="cuesta", dynamic=dynamic)(x, y):
            assert wished(middle(result))


def test_a_gradient_is_in_huge_pages() -> None:
    x, weight = torch.randn(8, 2048), torch.randn(4096, 2048, requires_grad=True)
    torch.compile(torch.nn.functional.linear, backend="cuesta")(x, weight).sum().backward()
    assert weight.grad is not None
    assert wished(middle(weight.grad))
