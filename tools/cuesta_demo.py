"""cuesta-demo: compiles a transformer encoder, trains and runs it, and compares with eager and Inductor.

The task is made up: each token has a class, to be learnt within a few steps. Weights are random, nothing is
downloaded, and every comparison is made in this one process.
"""

from __future__ import annotations

import argparse
import copy
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from cuesta.reports.quantities import count_text
from cuesta.tools.accuracy import largest_error
from cuesta.tools.bench.backends import fallbacks, inductor_is_missing, one_line
from cuesta.tools.bench.measuring.timing import Spread, interleaved, ratios
from cuesta.tools.bench.reporting.table import ratio, seconds, seconds_spread, table
from cuesta.tools.entry_points import ShowVersions

CLASSES = 8
VOCABULARY = 64
LOSS_TOLERANCE = 1e-3
"""Relative to eager's loss. Adam divides each gradient by its magnitude, so rounding errors grow from step to step."""
OUTPUT_TOLERANCE = 1e-4
"""Relative to the largest output of an encoder of a few layers in float32."""


@dataclass(frozen=True)
class Size:
    """Sizes of the encoder and its batches, and the number of training steps."""

    layers: int = 4
    hidden: int = 384
    batch: int = 4
    length: int = 128
    steps: int = 12


class Encoder(nn.Module):
    """Hugging Face's BERT encoder with a classifier for each token: ids N x T to logits N x T x CLASSES."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        from transformers import BertConfig, BertModel

        config = BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=size.hidden,
            num_hidden_layers=size.layers,
            num_attention_heads=size.hidden // 64,
            intermediate_size=4 * size.hidden,
            max_position_embeddings=size.length,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
        self.encoder = BertModel(config, add_pooling_layer=False)
        self.head = nn.Linear(size.hidden, CLASSES)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.encoder(input_ids=tokens).last_hidden_state)


def batch(size: Size, step: int) -> tuple[Tensor, Tensor]:
    """The tokens and labels of a step, the same for every backend."""
    generator = torch.Generator().manual_seed(step)
    tokens = torch.randint(VOCABULARY, (size.batch, size.length), generator=generator)
    return tokens, tokens % CLASSES


def say(text: str) -> None:
    """Prints a progress line."""
    print(text, flush=True)


@contextmanager
def stage(title: str) -> Iterator[None]:
    """Prints a headline before a part of the demo, and the part's seconds after it."""
    say(f"\n── {title}")
    started = time.perf_counter()
    yield
    say(f"   ({time.perf_counter() - started:.1f} s)")


def loss_function(module: nn.Module, backend: str | None) -> Callable[[Tensor, Tensor], Tensor]:
    """The loss of a batch as a function, compiled by `backend`; eager if it is None."""

    def loss(tokens: Tensor, labels: Tensor) -> Tensor:
        return nn.functional.cross_entropy(module(tokens).flatten(0, 1), labels.flatten())

    return loss if backend is None else torch.compile(loss, backend=backend, fullgraph=True)


def train(module: nn.Module, size: Size, backend: str | None) -> list[float]:
    """Trains `module` in place with AdamW, and returns the loss of each step."""
    loss_of = loss_function(module.train(), backend)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4)
    losses = []
    for step in range(size.steps):
        optimizer.zero_grad()
        loss = loss_of(*batch(size, step))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def compare_training(module: nn.Module, size: Size) -> tuple[nn.Module, list[str]]:
    """Trains copies of `module` with eager and cuesta. Returns cuesta's copy and a list of problems."""
    ours, theirs = copy.deepcopy(module), copy.deepcopy(module)
    say("   eager …")
    expected = train(theirs, size, None)
    say("   cuesta …")
    actual = train(ours, size, "cuesta")
    every = max(1, size.steps // 6)
    rows = [
        [str(step + 1), f"{e:.6f}", f"{a:.6f}", f"{abs(a - e):.1e}"]
        for step, (a, e) in enumerate(zip(actual, expected, strict=True))
        if step % every == 0 or step == size.steps - 1
    ]
    say(table(["step", "eager's loss", "cuesta's loss", "difference"], rows))
    problems = [f"training: a graph was not compiled, but run op by op in Python: {why}" for why in fallbacks()]
    worst = max(abs(a - e) / abs(e) for a, e in zip(actual, expected, strict=True))
    if not worst <= LOSS_TOLERANCE:
        problems.append(f"training: a loss has a relative difference of {worst:.1e} from eager's")
    if size.steps > 1 and not actual[-1] < actual[0]:
        problems.append("training: the loss did not go down")
    return ours, problems


def compile_all(module: nn.Module, tokens: Tensor, backends: Sequence[str]) -> dict[str, Callable[[], Tensor]]:
    """Compiles with each backend and prints the first call's time. Returns the calls of eager and of the others."""
    calls: dict[str, Callable[[], Tensor]] = {"eager": lambda: module(tokens)}
    rows = []
    for backend in backends:
        say(f"   {backend} compiles …")
        started = time.perf_counter()
        try:
            call = call_of(module, tokens, backend)
            call()
        except Exception as error:
            rows.append([backend, f"failed: {one_line(error)}"])
            continue
        rows.append([backend, seconds(time.perf_counter() - started)])
        calls[backend] = call
    say(table(["backend", "first call, empty cache"], rows))
    say("   (in this process, warm from training; in fresh ones: cuesta-bench --compile)")
    return calls


def call_of(module: nn.Module, tokens: Tensor, backend: str) -> Callable[[], Tensor]:
    """A call of `module`, compiled by `backend`."""
    compiled = torch.compile(module, backend=backend, fullgraph=True)
    return lambda: compiled(tokens)


def compare_outputs(calls: dict[str, Callable[[], Tensor]]) -> list[str]:
    """Prints each backend's largest difference from eager; returns a list of problems."""
    expected = calls["eager"]()
    scale = float(expected.abs().max())
    errors = {name: largest_error(call(), expected) for name, call in calls.items() if name != "eager"}
    rows = [[name, f"{error:.1e}", f"{error / scale:.1e}"] for name, error in errors.items()]
    say(table(["backend", "max abs error", "of the largest output"], rows))
    if "cuesta" not in errors:
        return ["inference: cuesta did not compile the encoder"]
    wrong = not errors["cuesta"] <= OUTPUT_TOLERANCE * scale
    return [f"inference: cuesta's outputs differ from eager's by {errors['cuesta']:.1e}"] if wrong else []


def print_speed(calls: dict[str, Callable[[], Tensor]]) -> None:
    """Times the calls interleaved, and prints medians with quartiles."""
    times = interleaved(calls)
    rows = [
        [name, seconds_spread(Spread.of(values)), ratio(ratios(values, times["eager"]))]
        for name, values in times.items()
    ]
    say(table(["backend", "time of a call", "of eager's time"], rows))


def parse(argv: Sequence[str] | None) -> Size:
    """The size to run. Ends the program with one message if an argument is wrong."""
    parser = argparse.ArgumentParser(prog="cuesta-demo", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--version", action=ShowVersions)
    for name, value in vars(Size()).items():
        parser.add_argument(f"--{name}", type=int, default=value, metavar="N", help="default: %(default)s")
    size = Size(**vars(parser.parse_args(argv)))
    for name, value in vars(size).items():
        if value < 1:
            parser.error(f"--{name} must be at least 1, not {value}")
    if size.hidden % 64:
        parser.error(f"--hidden must be a multiple of 64, the size of an attention head, not {size.hidden}")
    return size


def run(size: Size, dumps: Path) -> list[str]:
    """Runs the whole demo; returns a list of problems."""
    torch.manual_seed(0)
    with stage(f"Build a BERT encoder: {size.layers} layers, {size.hidden} wide, random weights"):
        module = Encoder(size)
        count = sum(p.numel() for p in module.parameters())
        say(f"   {count / 1e6:.1f} million parameters, batches of {size.batch} x {size.length} tokens")
        say(f"   torch {torch.__version__}, {count_text(torch.get_num_threads(), 'thread')}")

    with stage(f"Train {size.steps} steps with AdamW, eager and cuesta from the same weights"):
        trained, problems = compare_training(module, size)

    backends = ["cuesta", "inductor"]
    if why := inductor_is_missing():
        say(f"\nInductor: {why}, skipped")
        backends.remove("inductor")
    tokens, _ = batch(size, size.steps)
    trained.eval()
    torch.compiler.reset()  # so that the report below has the inference graph only
    with torch.no_grad():
        with stage("Compile for inference"):
            calls = compile_all(trained, tokens, backends)
        with stage("Compare with eager"):
            problems += compare_outputs(calls)
        with stage("Speed, interleaved in this process (medians with quartiles)"):
            print_speed(calls)

    problems += [f"inference: a graph was not compiled, but run op by op in Python: {why}" for why in fallbacks()]
    print_report(dumps)
    return problems


def print_report(dumps: Path) -> None:
    """Prints cuesta's report of the inference graph, and the folder with the dumps of its stages."""
    import cuesta

    say("\n── cuesta.report() of the inference graph")
    say(str(cuesta.report()))
    say(f"\nEvery stage of every graph is in {dumps}; cuesta-opt reads these files back.")


def main(argv: Sequence[str] | None = None) -> int:
    """Returns 1 if cuesta and eager disagree, or a part of the demo failed."""
    size = parse(argv)
    started = time.perf_counter()
    dumps = Path(os.environ.setdefault("CUESTA_DUMP", "cuesta_dump")).resolve()
    with tempfile.TemporaryDirectory(prefix="cuesta-demo-") as cache:
        # Both compilers start with empty caches, however often the demo has run before.
        os.environ["CUESTA_CACHE_DIR"] = str(Path(cache) / "cuesta")
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(cache) / "inductor")
        problems = run(size, dumps)
    say("")
    for problem in problems:
        say(f"FAILED: {problem}")
    say(f"{'Failed' if problems else 'Everything agrees with eager'}, {time.perf_counter() - started:.0f} s in all.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
