"""Which ops AOTAutograd takes apart for cuesta."""

import torch

from cuesta.frontend.decompositions import decompositions

aten = torch.ops.aten


def test_torch_s_core_list_is_in() -> None:
    table = decompositions()
    assert {aten.mish.default, aten.tril.default, aten.huber_loss.default, aten.nan_to_num.default} <= set(table)


def test_what_has_a_rule_or_a_row_stays_whole() -> None:
    assert not {aten.native_layer_norm.default, aten.gelu_backward.default, aten.silu.default} & set(decompositions())


def test_what_draws_random_numbers_stays_whole() -> None:
    assert not {op for op in decompositions() if torch.Tag.nondeterministic_seeded in op.tags}
