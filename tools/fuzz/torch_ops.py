"""What a random torch program is made of: lines with places to fill.

{x} is a tensor to go on with, {y} and {z} others; {d} and {e} are dims of x, {n} a size along d or a position in it,
{s} a number, {f} a floating dtype, {t} any dtype, {i} a tensor of positions. A line that torch refuses is left out,
so a template need not fit every tensor.
"""

from __future__ import annotations

#: (weight, expressions): an expression makes a new value.
EXPRESSIONS: tuple[tuple[float, tuple[str, ...]], ...] = (
    # Pointwise
    (14, ("{x} + {y}", "{x} - {y}", "{x} * {y}", "{s} - {x}", "{x} * {s}", "{x} + {s}", "torch.maximum({x}, {y})",
          "torch.minimum({x}, {y})", "{x} / ({y}.abs() + 1)", "{x} / {s}", "torch.add({x}, {y}, alpha=2)",
          "torch.addcmul({x}, {y}, {z}, value=0.5)", "torch.lerp({x}, {y}, 0.25)", "{x}.rsub({y})")),
    (12, ("{x}.tanh()", "{x}.sigmoid()", "{x}.relu()", "-{x}", "{x}.abs()", "{x}.sin()", "{x}.square()",
          "({x}.abs() + 0.5).sqrt()", "({x}.abs() + 0.5).log()", "({x}.abs() + 0.5).rsqrt()", "{x}.tanh().exp()",
          "F.gelu({x})", "F.silu({x})", "F.elu({x})", "F.leaky_relu({x})", "F.softplus({x})", "F.hardtanh({x})",
          "F.gelu({x}, approximate='tanh')", "F.hardswish({x})", "F.mish({x})", "{x}.erf()", "{x}.expm1().tanh()",
          "{x}.tanh() ** 3", "({x}.abs() + 0.5) ** {s}", "{x}.clamp(-1, 1)", "{x}.clamp(min=0)", "{x}.sign()",
          "{x}.reciprocal().tanh()", "F.logsigmoid({x})")),
    (4, ("torch.where({x} > {y}, {x}, {z})", "torch.where({x} > 0, {x}, {s})", "{x}.masked_fill({x} > 0, {s})",
         "{x} > {y}", "({x} > 0) & ({y} < 1)", "{x} == {y}", "{x}.isnan()", "~({x} > 0)", "({x} > {y}) | ({z} > 0)")),
    (5, ("{x}.to({t})", "{x}.to({f})", "{x}.float()", "{x}.clamp(-90, 90).long()", "{x}.type_as({y})",
         "({x} > 0).to({f})", "{x}.clamp(-90, 90).int() // 3", "{x}.clamp(-90, 90).long() % 5")),
    # Reductions
    (8, ("{x}.sum({d})", "{x}.mean({d})", "{x}.sum()", "{x}.sum({d}, keepdim=True)", "{x}.mean({d}, keepdim=True)",
         "{x}.amax({d})", "{x}.amin({d}, keepdim=True)", "{x}.max({d}).values", "{x}.min({d}, keepdim=True).values",
         "{x}.argmax({d})", "{x}.argmin()", "{x}.var({d}, correction=0)", "{x}.prod({d})", "({x} > 0).any({d})",
         "({x} > 0).all()", "{x}.sum(({d}, {e}))", "{x}.cumsum({d})", "{x}.logsumexp({d})", "{x}.max()",
         "{x}.sum({d}, dtype=torch.float64)", "{x}.count_nonzero({d})",
          "torch.linalg.vector_norm({x} + 3, dim={d})")),
    # Rows
    (5, ("{x}.softmax({d})", "F.log_softmax({x}, {d})", "F.layer_norm({x}, {x}.shape[-1:], eps=0.1)",
         "{x}.softmax({d}, dtype=torch.float32)", "F.normalize({x} + 2, dim={d})",
          "F.rms_norm({x}, {x}.shape[-1:], eps=0.1)",
         "F.glu(torch.cat([{x}, {x}], {d}), {d})", "{x} - {x}.mean({d}, keepdim=True)",
         "F.group_norm({x}.unsqueeze(0), 1, eps=0.1)", "F.layer_norm({x}, {x}.shape[-2:], eps=0.1)")),
    # Contractions
    (4, ("{x} @ {y}", "{x} @ {x}.mT", "F.linear({x}, {y})", "torch.einsum('...i,...i->...', {x}, {y})",
         "torch.outer({x}.flatten()[:9], {y}.flatten()[:7])", "torch.baddbmm({z}, {x}, {y})",
          "torch.addmm({z}, {x}, {y})",
         "F.conv1d({x}.reshape(1, 1, -1), {y}.flatten()[:3].reshape(1, 1, -1))")),
    # Views
    (14, ("{x}.transpose({d}, {e})", "{x}.mT", "{x}.flip({d})", "{x}.reshape(-1)", "{x}.flatten({d})",
          "{x}.unsqueeze({d})",
          "{x}.unsqueeze(-1)", "{x}.squeeze()", "{x}.squeeze({d})", "{x}[..., 1:]", "{x}[::2]",
          "{x}[..., ::3]", "{x}[0]",
          "{x}[..., -1]", "{x}.narrow({d}, 0, {n})", "{x}.select({d}, {n})", "{x}.movedim({d}, {e})", "{x}[None]",
          "{x}.chunk(2, {d})[-1]", "{x}.split({n}, {d})[0]", "{x}.unbind({d})[-1]", "{x}.diagonal()",
          "{x}.view(-1, 1)",
          "{x}.expand(3, *{x}.shape)", "{x}.sum({d}, keepdim=True).expand_as({x})", "{x}.unfold({d}, {n}, 1)",
          "{x}[:, 1:]",
          "torch.broadcast_to({x}, torch.broadcast_shapes({x}.shape, {y}.shape))",
          "{x}.permute(*reversed(range({x}.dim())))", "{x}.T")),
    # Movement
    (8, ("torch.cat([{x}, {y}], {d})", "torch.cat([{x}, {x}.tanh(), {x}], {d})", "torch.stack([{x}, {y}], {d})",
         "torch.stack([{x}, -{x}], -1)", "{x}.repeat(2, *[1] * ({x}.dim() - 1))", "torch.roll({x}, 1, {d})",
          "{x}.clone()",
         "{x}.contiguous()", "F.pad({x}, (1, 2))", "F.pad({x}, (-1, 1))", "F.pad({x}, (0, 0, 1, 0), value=2.0)",
         "torch.tril({x})", "torch.triu({x}, 1)", "{x}.repeat_interleave(2, {d})", "torch.hstack([{x}, {y}])",
         "{x}.tile((2,))", "torch.rot90({x})")),
    # Positions
    (5, ("{x}[{i}]", "{x}[:, {i}]", "{x}.index_select({d}, {i}.flatten())", "{x}.gather({d}, {x}.argsort({d}))",
         "{x}.sort({d}).values", "F.embedding({i}, {x})",
          "{x}.index_add({d}, {i}.flatten()[:1], {x}.narrow({d}, 0, 1))",
         "{x}.scatter({d}, {x}.argsort({d}), 1)", "torch.take_along_dim({x}, {x}.argmax({d}, keepdim=True), {d})",
         "{x}.index_put(({i},), {x}[0])", "{x}.topk(1, {d}).values", "{x}[{i}, {i}]", "F.one_hot({i}, 8)")),
    # New ones
    (2, ("torch.zeros_like({x})", "torch.ones({x}.shape)", "torch.arange({x}.shape[{d}])",
          "{x}.new_full((2, 3), {s})",
         "torch.full_like({x}, {s})", "torch.linspace(0, 1, {x}.shape[{d}])", "torch.eye({x}.shape[{d}])")),
)  # fmt: skip

#: Statements that write into a value that is there.
STATEMENTS: tuple[str, ...] = (
    "{x}.add_({y})", "{x}.mul_({s})", "{x} += {s}", "{x}.copy_({y})", "{x}.tanh_()", "{x}.zero_()", "{x}.relu_()",
    "{x}[0] = {s}", "{x}[..., 1:] = {y}[..., 1:]", "{x}[..., ::2] *= 2", "{x}.transpose({d}, {e}).sub_({s})",
    "{x}.narrow({d}, 0, {n}).add_(1)", "{x}.masked_fill_({x} > 0, {s})", "{x}.clamp_(-1, 1)", "{x}[{i}] = {s}",
    "{x}.index_add_({d}, {i}.flatten()[:1], {x}.narrow({d}, 0, 1))", "{x}.select({d}, {n}).copy_({y})", "{x}.neg_()",
    "{x}.fill_({s})", "{x}.flatten()[:2].add_(1)", "{x}.diagonal().add_(1)", "{x}.addcmul_({y}, {z})",
          "{x}.sigmoid_()",
)  # fmt: skip
