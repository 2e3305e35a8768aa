"""A batch norm that images of several sizes pass, as in the head of a detector, on the interpreter of GPUs."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Head(nn.Module):
    """Its running statistics chain the sums of all sizes, so that these are one kernel. The sums of parts are not: a
    program of that kernel has a few columns and all parts of each size."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(128)

    def forward(self, images: list[Tensor]) -> Tensor:
        return torch.stack([F.silu(self.norm(image)).square().mean() for image in images]).sum()


def test_one_norm_of_several_sizes() -> None:
    torch.manual_seed(0)
    images = [torch.randn(8, 128, n, n).to(memory_format=torch.channels_last) for n in (8, 16, 32)]
    eager, ours = Head(), Head()
    compiled = torch.compile(ours, backend="cuesta", options={"target": "tt"}, dynamic=False)
    for head, call in ((eager, eager), (ours, compiled)):
        head.zero_grad()
        call([image.clone() for image in images]).backward()
    for own, other in zip([*ours.parameters(), *ours.buffers()], [*eager.parameters(), *eager.buffers()], strict=True):
        assert torch.allclose(own.float(), other.float(), rtol=1e-4, atol=1e-5)
    for own, other in zip(ours.parameters(), eager.parameters(), strict=True):
        assert own.grad is not None
        assert other.grad is not None
        assert torch.allclose(own.grad, other.grad, rtol=1e-3, atol=1e-5)
