"""Lightning: a LightningModule compiled with cuesta is trained, validated, written to disk and goes on from there.

    pip install lightning
    python examples/lightning_trainer.py

Trainer takes what torch.compile returns for the module, and writes checkpoints that the module itself can read. The
losses, the validation's too, and the weights are those of eager after the same steps.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

BACKEND = "cuesta"

Batch = tuple[Tensor, Tensor]


class Classifier(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 4))
        self.losses: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)

    def training_step(self, batch: Batch, batch_index: int) -> Tensor:
        x, labels = batch
        return nn.functional.cross_entropy(self(x), labels)

    def validation_step(self, batch: Batch, batch_index: int) -> Tensor:
        x, labels = batch
        return nn.functional.cross_entropy(self(x), labels)

    # Lightning has the steps compiled and not these. It keeps its log in Python, so a log in a step breaks the graph.
    def on_train_batch_end(self, outputs: dict[str, Tensor], batch: Batch, batch_index: int) -> None:
        self.losses.append(outputs["loss"].detach())

    def on_validation_batch_end(self, outputs: Tensor, batch: Batch, batch_index: int) -> None:
        self.log("validation_loss", outputs)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=0.01)


@dataclass
class Run:
    """What came of a training."""

    losses: list[Tensor]
    validation_loss: Tensor
    weights: dict[str, Tensor]


def loader(count: int, seed: int) -> DataLoader[tuple[Tensor, ...]]:
    """Rows whose label is the largest of their first four numbers; the last batch is smaller than the others."""
    x = torch.randn(count, 16, generator=torch.Generator().manual_seed(seed))
    return DataLoader(TensorDataset(x, x[:, :4].argmax(1)), batch_size=32)


def train(folder: Path, epochs: int, backend: str | None, resume_from: Path | None = None) -> tuple[Run, Path]:
    """Trains a module to the end of that many epochs; returns what came of it and the file of its last checkpoint."""
    torch.manual_seed(0)
    module = Classifier()
    checkpoint = ModelCheckpoint(dirpath=folder, filename=f"{backend}-{epochs}")
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_epochs=epochs,
        callbacks=[checkpoint],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    compiled = module if backend is None else torch.compile(module, backend=backend)
    trainer.fit(compiled, loader(120, seed=1), loader(50, seed=2), ckpt_path=resume_from)
    loss = trainer.callback_metrics["validation_loss"]
    return Run(module.losses, loss, module.state_dict()), Path(checkpoint.best_model_path)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        expected, _ = train(folder, 4, None)
        actual, _ = train(folder, 4, BACKEND)
        _, half = train(folder, 2, BACKEND)
        resumed, last = train(folder, 4, BACKEND, resume_from=half)
        kept = Classifier.load_from_checkpoint(last).state_dict()
    print(f"{len(actual.losses)} steps; validation loss {actual.validation_loss:.4f}, resumed after half of them")
    print(f"{resumed.validation_loss:.4f}, eager {expected.validation_loss:.4f}")
    torch.testing.assert_close(vars(actual), vars(expected), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(resumed.weights, actual.weights)
    torch.testing.assert_close(kept, resumed.weights, rtol=0, atol=0)


if __name__ == "__main__":
    main()
