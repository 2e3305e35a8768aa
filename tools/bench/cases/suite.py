"""The cases of `cuesta-bench --device cuda --suite`: models like those of torch.compile's dashboard.

A case is named family/model_kind. Evaluation converts the model and its inputs to bf16; training keeps weights in
float32 and runs in autocast to bf16. A break of the graph is no error.
"""

from __future__ import annotations

from cuesta.tools.bench.cases.case import BF16, F32, Case, model
from cuesta.tools.models import DASHBOARD, DashboardModel


def evaluated(m: DashboardModel) -> Case:
    return model(f"{m.family}/{m.name}_eval", m.build, "eval", BF16, whole=False)


def trained(m: DashboardModel) -> Case:
    return model(f"{m.family}/{m.name}_train", m.build, "train", F32, autocast=BF16, whole=False)


SUITE_CASES = (*map(evaluated, DASHBOARD), *map(trained, DASHBOARD))
