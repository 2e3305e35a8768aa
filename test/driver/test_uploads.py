"""Work on the CPU is taken out of a graph, and its results become the graph's last arguments. Here torch's device
`meta`, whose tensors have no values, stands for a GPU."""

import torch
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from cuesta.driver.calling import as_boxed
from cuesta.driver.uploads import bind, take_uploads


def _traced(function, *args) -> GraphModule:
    return make_fx(function, tracing_mode="fake")(*args)


def _devices(gm: GraphModule) -> list[str]:
    """The devices of the tensors that a graph computes."""
    values = [node.meta.get("val") for node in gm.graph.nodes if node.op == "call_function"]
    return [value.device.type for value in values if isinstance(value, torch.Tensor)]


def test_a_table_on_the_cpu_becomes_an_uploaded_argument():
    x, table = torch.empty(4, 8, device="meta"), torch.randn(16, 8)
    gm = _traced(lambda x, table: (x + (table[:4] * 2).to("meta", torch.float16),), x, table)
    uploads = take_uploads(gm)
    assert uploads is not None and list(uploads.sources) == [1]
    assert set(_devices(gm)) == {"meta"}
    assert len(gm.graph.find_nodes(op="placeholder")) == 3
    (uploaded,) = uploads.compute([table])
    assert (uploaded.device.type, uploaded.dtype, tuple(uploaded.shape)) == ("meta", torch.float16, (4, 8))


def test_the_call_computes_uploads_from_its_arguments():
    x, table = torch.empty(4, device="meta"), torch.randn(4)
    gm = _traced(lambda x, table: (x + table.to("meta"),), x, table)
    uploads = take_uploads(gm)
    assert uploads is not None
    seen = []

    @as_boxed
    def program(args):
        seen.extend(args)
        return []

    bind(uploads, program)([x, table])
    assert seen[0] is x and seen[1] is None and seen[2].device.type == "meta" and len(seen) == 3


def test_two_tables_keep_their_order():
    x, first, second = torch.empty(4, device="meta"), torch.randn(4), torch.randn(1)
    gm = _traced(lambda x, a, b: (x * b.to("meta") + a.to("meta") + b.to("meta"),), x, first, second)
    uploads = take_uploads(gm)
    assert uploads is not None
    sizes = [tuple(value.shape) for value in uploads.compute([(x, first, second)[i] for i in uploads.sources])]
    arguments = [node for node in gm.graph.find_nodes(op="placeholder") if node.name.startswith("uploaded")]
    assert sizes == [tuple(node.meta["val"].shape) for node in arguments]
    assert sorted(sizes) == [(1,), (1,), (4,)]


def test_a_graph_that_needs_the_cpu_otherwise_stays():
    x, table = torch.empty(4, device="meta"), torch.randn(4)
    returns = _traced(lambda x, table: (x + table.to("meta"), table + 1), x, table)
    writes = _traced(lambda x, table: (x + table.to("meta"), table.add_(1)), x, table)
    for gm in (returns, writes):
        before = str(gm.graph)
        assert take_uploads(gm) is None and str(gm.graph) == before


def test_a_graph_without_copies_from_the_cpu_stays():
    x = torch.empty(4, device="meta")
    constant = _traced(lambda x: (x + torch.ones(4).to("meta"),), x)  # move-constants makes it on the device
    number = _traced(lambda x, y: (x + y,), x, torch.tensor(2.0))
    assert take_uploads(constant) is None
    assert take_uploads(number) is None
