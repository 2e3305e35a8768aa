"""A training loop that is stopped, written to disk, and goes on as if nothing had happened.

    python examples/checkpoint_resume.py

Model, optimizer, schedule and the state of torch's generator are kept; the compiled code is not, and need not be.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

BACKEND = "cuesta"


def make_model() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.2), nn.BatchNorm1d(64), nn.Linear(64, 4))


@dataclass
class Training:
    """All that a run consists of."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    schedule: torch.optim.lr_scheduler.LRScheduler

    @staticmethod
    def start() -> Training:
        model = make_model()
        optimizer = torch.optim.AdamW(model.parameters(), lr=torch.tensor(0.01))
        return Training(model, optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10))

    def run(self, steps: int) -> list[float]:
        """The loss of each step. Data are drawn from torch's generator, as the dropout is."""
        compiled = torch.compile(self.model, backend=BACKEND)
        update = torch.compile(self.optimizer.step, backend=BACKEND)
        losses = []
        for _ in range(steps):
            x = torch.randn(32, 16)
            loss = nn.functional.cross_entropy(compiled(x), x[:, :4].argmax(1))
            self.optimizer.zero_grad()
            loss.backward()
            update()
            self.schedule.step()
            losses.append(loss.item())
        return losses

    def save(self, path: Path) -> None:
        # The model, not what torch.compile made of it: its names have no prefix then.
        parts = {name: part.state_dict() for name, part in vars(self).items()}
        torch.save({"parts": parts, "generator": torch.get_rng_state()}, path)

    def load(self, path: Path) -> None:
        saved: dict[str, Tensor] = torch.load(path)
        for name, part in vars(self).items():
            part.load_state_dict(saved["parts"][name])
        torch.set_rng_state(saved["generator"])


def main() -> None:
    torch.manual_seed(0)
    whole = Training.start().run(8)

    torch.manual_seed(0)
    first = Training.start()
    losses = first.run(4)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint.pt"
        first.save(path)
        torch._dynamo.reset()  # as in a new process
        second = Training.start()
        second.load(path)
    losses += second.run(4)
    for step, (uninterrupted, resumed) in enumerate(zip(whole, losses, strict=True)):
        print(f"step {step}: {uninterrupted:.6f} uninterrupted, {resumed:.6f} resumed")
    assert losses == whole


if __name__ == "__main__":
    main()
