"""AOTAutograd as all of cuesta uses it: which graphs it makes of Dynamo's, and how it splits them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd


def around(compiler: Callable[[str], Callable[..., Any]], decompositions: Mapping[Any, Any]) -> Callable[..., Any]:
    """A backend for Dynamo that hands functional ATen graphs to compilers.

    `compiler` gives the compiler of a kind of graph: "forward", "backward" or "inference".
    """
    return aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        decompositions=decompositions,
        partition_fn=partition,
        keep_inference_input_mutations=True,
    )


def partition(joint: torch.fx.GraphModule, joint_inputs: Any, **kwargs: Any) -> Any:
    """The forward and the backward graph of a joint one, as AOTAutograd's partitioners return them."""
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    # "inductor" stands for: recomputing pointwise ops is cheap, because the compiler fuses them.
    return min_cut_rematerialization_partition(joint, joint_inputs, compiler="inductor", **kwargs)
