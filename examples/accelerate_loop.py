"""A plain training loop with Hugging Face's Accelerate: gradients summed over two batches, clipped, and a checkpoint.

    pip install accelerate
    python examples/accelerate_loop.py
    torchrun --nproc-per-node 2 examples/accelerate_loop.py

`accelerator.prepare` compiles the model. The losses and the weights are those of eager, also where the run is taken up
from its checkpoint.
"""

from __future__ import annotations

import tempfile

import torch
from accelerate import Accelerator
from accelerate.utils import TorchDynamoPlugin, broadcast_object_list
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import cuesta

BACKEND = "cuesta"
EPOCHS = 4


def make_model() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 4))


def make_loader() -> DataLoader[tuple[Tensor, ...]]:
    """Rows whose label is the largest of their first four numbers; the last batch is smaller than the others."""
    x = torch.randn(120, 16, generator=torch.Generator().manual_seed(1))
    return DataLoader(TensorDataset(x, x[:, :4].argmax(1)), batch_size=32)


class Training:
    """Model, optimizer, schedule and data, as Accelerate prepared them."""

    def __init__(self) -> None:
        plugin = TorchDynamoPlugin(backend=BACKEND)
        self.accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2, dynamo_plugin=plugin)
        torch.manual_seed(0)
        model = make_model()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2 * EPOCHS)
        prepared = self.accelerator.prepare(model, optimizer, make_loader(), schedule)
        self.model, self.optimizer, self.loader, self.schedule = prepared

    def run(self, epochs: int) -> list[float]:
        """The loss of each batch."""
        losses = []
        for _ in range(epochs):
            for x, labels in self.loader:
                with self.accelerator.accumulate(self.model):
                    loss = nn.functional.cross_entropy(self.model(x), labels)
                    self.accelerator.backward(loss)
                    if self.accelerator.sync_gradients:
                        self.accelerator.clip_grad_norm_(self.model.parameters(), 1.0)
                    self.optimizer.step()
                    self.schedule.step()
                    self.optimizer.zero_grad()
                losses.append(loss.item())
        return losses

    def weights(self) -> dict[str, Tensor]:
        """By the names that the model gives them, without the compiled module's prefix."""
        return self.accelerator.unwrap_model(self.model, keep_torch_compile=False).state_dict()


def main() -> None:
    cuesta.register_with_accelerate()
    # A process has one configuration of Accelerate, the first; so the same program runs in eager by torch's own switch.
    eager = Training()
    with torch.compiler.set_stance("force_eager"):
        expected = eager.run(EPOCHS)

    first = Training()
    actual = first.run(EPOCHS // 2)
    with tempfile.TemporaryDirectory() as own:
        (folder,) = broadcast_object_list([own])  # of several processes, all use the first one's
        first.accelerator.save_state(folder)
        first.accelerator.wait_for_everyone()
        second = Training()
        second.accelerator.load_state(folder)
        second.accelerator.wait_for_everyone()
    actual += second.run(EPOCHS - EPOCHS // 2)

    ends = [f"{losses[0]:.4f} to {losses[-1]:.4f}" for losses in (actual, expected)]
    second.accelerator.print(f"{len(actual)} batches a process: loss {ends[0]}, eager {ends[1]}")
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(second.weights(), eager.weights(), rtol=1e-4, atol=1e-5)
    second.accelerator.end_training()


if __name__ == "__main__":
    main()
