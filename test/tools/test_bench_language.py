"""cuesta-bench --language: its cases, small ones of them measured, how they are judged, and its table."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from cuesta.tools import cuesta_bench
from cuesta.tools.bench import command
from cuesta.tools.bench.cases import CPU_CASES, GPU_CASES, LANGUAGE_CASES, SUITE_CASES, SURVEY_CASES, Case
from cuesta.tools.bench.cases.attention import FLEX, Shape, flex
from cuesta.tools.bench.cases.case import BF16, F32, Function
from cuesta.tools.bench.cases.decoding import decoding, generation
from cuesta.tools.bench.cases.language import llama
from cuesta.tools.bench.cases.workload import Workload
from cuesta.tools.bench.contenders import Contender
from cuesta.tools.bench.measuring import on_gpu
from cuesta.tools.bench.measuring.bandwidth import read_rate
from cuesta.tools.bench.measuring.cost import Cost, cost_of
from cuesta.tools.bench.measuring.on_gpu import measure_case
from cuesta.tools.bench.reporting import cpu_page, gpu_page
from cuesta.tools.bench.reporting.language_tables import language_notes, language_table
from cuesta.tools.models.decoder import DecoderSizes, decoder

CPU = torch.device("cpu")
TINY = DecoderSizes(layers=1, hidden=64, heads=4, key_heads=2, inner=96, vocabulary=40, length=32)
STEPS = 4


def quiet(_: Any) -> None:
    """Takes progress and results, and does nothing."""


def measured(case: Case, *contenders: str) -> dict[str, Any]:
    parsed = [Contender.parse(name) for name in contenders]
    return measure_case(case, parsed, CPU, 2, save=quiet, progress=quiet)


@pytest.fixture
def known_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """A memory that is read at 1e9 bytes a second: measuring takes time."""
    monkeypatch.setattr(on_gpu, "read_rate", lambda _: 1e9)


def loop(dtype: torch.dtype = BF16) -> Case:
    build = partial(decoder, TINY, at=8)
    return decoding("loop", build, dtype, steps=STEPS, stand_in=build)


def test_cases_are_listed_for_each_device(capsys: pytest.CaptureFixture[str]) -> None:
    assert cuesta_bench.main(["--language", "--list"]) == 0
    on_cpu = capsys.readouterr().out.split()
    assert cuesta_bench.main(["--language", "--list", "--device", "cuda"]) == 0
    on_gpu = capsys.readouterr().out.split()
    for kind in ("step_bf16_1", "step_bf16_4", "step_int8_1", "step_int4_4", "step_float8_1", "generate_bf16_1x64"):
        assert f"decoder_{kind}" in on_cpu
        assert f"llama_1b_{kind}" in on_gpu
    assert {"decoder_step_f32_1", "decoder_prompt_bf16_1x512"} < set(on_cpu)
    assert {"llama_1b_step_bf16_8", "llama_1b_prompt_bf16_1x2048", "sdpa_causal_1x16x16384x128"} < set(on_gpu)
    assert {f"flex_{name}_2x8x1024x64" for name in FLEX} < set(on_cpu)
    assert {f"flex_{name}_{kind}4x16x2048x64" for name in FLEX for kind in ("", "train_")} < set(on_gpu)


def test_no_name_is_twice_in_all_lists() -> None:
    lists = (CPU_CASES, GPU_CASES, SUITE_CASES, SURVEY_CASES, *LANGUAGE_CASES.values())
    counts = Counter(case.name for cases in lists for case in cases)
    assert [name for name, count in counts.items() if count > 1] == []


@pytest.mark.usefixtures("known_rate")
def test_a_step_is_judged_and_knows_its_bytes() -> None:
    case = decoding("step", partial(decoder, TINY, at=8))
    found = measured(case, "eager", "aot_eager")
    assert all(part["accuracy"]["right"] for part in found["contenders"].values())
    assert found["tokens"] == 1
    module: Any = case.make().workload()
    assert found["reads"] == module.reads == decoder(TINY).module.to(BF16).bytes_of_step(8)  # type: ignore[operator]
    assert found["read_rate"] == 1e9


def test_a_prompt_is_not_limited_by_the_memory() -> None:
    workload = decoding("prompt", partial(decoder, TINY, prompt=16)).make().workload()
    assert (workload.tokens, workload.reads) == (16, 0)


def test_a_loop_takes_the_most_probable_token() -> None:
    subject = loop(F32).make()
    workload = subject.workload()
    found = workload.compiled("eager")()
    module: Any = subject.built.module  # type: ignore[union-attr]
    assert workload.tokens == STEPS
    assert workload.reads == sum(module.bytes_of_step(8 + step) for step in range(STEPS))
    token = workload.arguments[0]
    for step in range(STEPS):
        token = module(token, torch.tensor([8 + step])).argmax(-1, keepdim=True)
        assert_close(found[:, step : step + 1], token)
    assert_close(workload.compiled("eager")(), found)  # a second call starts where the first did


@pytest.mark.usefixtures("known_rate")
def test_a_loop_is_judged_by_the_tokens_of_what_stands_in() -> None:
    """Backends are told apart by a step in float32, whatever tokens the case itself gives."""
    asked: list[torch.dtype] = []

    @torch._dynamo.register_backend(name="least_probable")
    def least_probable(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Any:
        asked.append(next(x.dtype for x in inputs if x.is_floating_point()))
        return lambda *given: tuple((token + 1) % TINY.vocabulary for token in graph(*given))

    contenders = measured(loop(), "eager", "aot_eager", "least_probable")["contenders"]
    assert [part["accuracy"]["right"] for part in contenders.values()] == [True, True, False]
    assert asked == [BF16, F32]


def test_transformers_generate_takes_the_contenders_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "0")  # generate sets it
    small = DecoderSizes(layers=1, hidden=64, heads=4, key_heads=2, inner=96, vocabulary=40, length=64)
    case = generation("generate", partial(llama, small, 5), partial(llama, small, 5), steps=STEPS)
    subject = case.make_stand_in(CPU)
    assert subject is not None
    workload, calls = subject.workload(), []

    def step(**inputs: Any) -> Any:
        calls.append(inputs["input_ids"].shape)
        return workload.function(**inputs)

    assert workload.around is not None
    tokens = workload.around(step)
    model: Any = subject.built.module  # type: ignore[union-attr]
    prompt = subject.built.inputs["input_ids"]  # type: ignore[union-attr]
    expected = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=STEPS, do_sample=False)
    assert_close(tokens, expected[:, 5:])
    assert calls == [(1, 1)] * (STEPS - 1)  # the first token is the prompt's
    ours = decoder(small).module
    assert workload.reads == sum(ours.bytes_of_step(5 + n) for n in range(STEPS))  # type: ignore[operator]


@pytest.mark.parametrize("name", FLEX)
def test_attention_with_masks_and_scores_runs_and_is_counted(name: str) -> None:
    shape = Shape(1, 2, 256, 16, F32)
    workload = flex(name, shape).make().workload()
    result = workload.compiled("eager")()
    q, k, v, *tables = workload.arguments
    scores, (query, key) = q @ k.mT / 4, torch.meshgrid(torch.arange(256), torch.arange(256), indexing="ij")
    hidden = query < key if FLEX[name].mask else torch.zeros(256, 256).bool()
    if name == "window":
        hidden = hidden | (query - key >= 256)
    elif name == "documents":
        document = torch.bucketize(torch.arange(256), torch.tensor([26, 90, 102, 205, 256]), right=True)
        hidden = hidden | (document[:, None] != document)
    elif name == "alibi":
        scores = scores + tables[0][:, None, None] * (key - query)
    elif name == "soft_cap":
        scores = 20 * (scores / 20).tanh()
    elif name == "relative":
        scores = scores + tables[0][:, query - key + 255]
    assert_close(result, scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v)
    cost = cost_of(workload)
    blocks = 24 * 2 if FLEX[name].mask else 0
    assert cost == Cost(cost.read, result.nbytes, cost.footprint, 4 * 2 * 256 * 256 * 16)
    assert 3 * q.nbytes <= cost.read <= 3 * q.nbytes + 4 * blocks


def test_training_steps_of_functions_are_judged_in_a_wider_type() -> None:
    def loss(gradient: Tensor, x: Tensor, y: Tensor) -> Tensor:
        return ((x @ y).tanh() * gradient).sum()

    def build() -> Function:
        gradient, (x, y) = torch.randn(16, 16).to(BF16), (torch.randn(16, 16).to(BF16).requires_grad_() for _ in "xy")
        return Function(Workload(loss, (gradient, x, y), (x, y)))

    wider = build().wider().workload()
    assert [p.dtype for p in wider.parameters] == [F32, F32]
    assert wider.parameters == wider.arguments[1:]
    found = measured(Case("step", build), "eager", "aot_eager")["contenders"]["aot_eager"]["accuracy"]
    assert found["right"]
    assert found["gradients"] == pytest.approx(1.0, abs=0.5)
    assert found["worst_name"] in ("parameter 0", "parameter 1")


def made_up() -> dict[str, Any]:
    def part(seconds: float, right: bool = True) -> dict[str, Any]:
        accuracy = {"right": right, "outputs": 1.0, "gradients": None, "error": 0.1, "eager_error": 0.1, "above": 0}
        return {"times": [{"device": seconds, "wall": seconds, "host": seconds}] * 3, "accuracy": accuracy}

    step = {"eager": part(0.04), "cuesta": part(0.02)}
    return {
        "step": {"contenders": step, "tokens": 4, "reads": 100_000_000, "read_rate": 1e10},
        "flex": {"contenders": {"eager": part(1.0), "cuesta": part(0.5, False)}, "tokens": 0, "reads": 0},
        "missing": {"failed": "ImportError: no transformers"},
    }


def test_a_table_has_the_share_of_the_bandwidth() -> None:
    content = language_table(made_up())
    at = [list(content.header).index(name) for name in ("case, contender", "a token", "tokens/s", "of bandwidth")]
    assert [[row[i] for i in at] for row in content.rows] == [
        ["step, eager", "10 ms", "100", "25%"],
        ["step, cuesta", "5 ms", "200", "50%"],
        ["flex, eager", "–", "–", "–"],
        ["flex, cuesta", "–", "–", "–"],
        ["missing", "–", "–", "–"],
    ]
    wrong, failed, rate = language_notes(made_up())
    assert wrong.startswith("flex, cuesta: WRONG")
    assert failed == "missing: failed: ImportError: no transformers"
    assert rate == "memory read at 10 GB/s"


def test_what_is_wrong_or_failed_is_a_problem_on_either_device() -> None:
    for page in (cpu_page, gpu_page):
        found = made_up()
        assert not page.has_problem({"times": {}, "language": {"step": found["step"]}})
        for name in ("flex", "missing"):
            assert page.has_problem({"times": {}, "language": {name: found[name]}})


def test_a_memory_is_read_faster_than_a_disk() -> None:
    assert read_rate(CPU) > 5e8


@pytest.mark.parametrize(("device", "case"), [("cpu", "decoder_step_int4_1"), ("cuda", "llama_1b_step_int4_1")])
def test_a_whole_run_its_page_and_its_picture(
    device: str, case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the CPU in the GPU's place, and made-up results in a process's."""
    asked: list[Any] = []

    def run_job(what: str, case: str, contenders: list[str], device: str, *others: Any) -> dict[str, Any]:
        asked.append((what, case, contenders, device, others[-1]))
        return made_up()["step"]

    monkeypatch.setattr(command, "run_job", run_job)
    kept, written, picture = tmp_path / "a.json", tmp_path / "a.md", tmp_path / "a.png"

    def run(*argv: str) -> int:
        arguments, cases, contenders = cuesta_bench.parse(
            ["--device", device, "--language", "--markdown", str(written), "--plot", str(picture), *argv]
        )
        return command.run(arguments, cases, contenders, "cpu", quiet)[0]

    assert run("--case", "step_int4_1", "--backends", "eager,cuesta", "--json", str(kept)) == 0
    assert asked == [("times", case, ["eager", "cuesta"], "cpu", torch.get_num_threads())]
    assert f"{case}, cuesta" in capsys.readouterr().out
    assert list(json.loads(kept.read_text())["language"]) == [case]
    text = written.read_text()
    assert "# Language models" in text
    assert f"| {case}, cuesta | 20 ms |" in text
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert run("--results", str(kept)) == 0
    assert written.read_text() == text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--language", "--survey"], "choose one"),
        (["--language", "--suite", "--device", "cuda"], "choose one"),
        (["--language", "--history", "/tmp/x.json"], "which this run does not measure"),
        (["--language", "--case", "llama_1b"], "matches no case"),
    ],
)
def test_a_wrong_argument_is_one_message(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cuesta_bench.main(arguments)
    assert message in capsys.readouterr().err.strip().splitlines()[-1]
