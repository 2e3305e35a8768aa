"""Makes random functions of one to four tensors, and the calls of each function."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import torch
import torch.nn.functional as F

from cuesta.tools.fuzz.calls.call import GRADIENTS
from cuesta.tools.fuzz.calls.call_inputs import (
    Form,
    Place,
    Shape,
    argument_lines,
    block_size,
    needs_own_memory,
    random_form,
    random_place,
)
from cuesta.tools.fuzz.calls.call_text import call_block, text_of
from cuesta.tools.fuzz.calls.memories import Memories

#: Calls of one function, not counting the call that the function is compiled for.
CALLS = 40
#: Number of sets of unusual argument forms for one function, and the number if sizes are open. Dynamo compiles once for
#: most sets.
FORMS, OPEN_FORMS = 6, 3
_LARGEST = 5000

#: (expression, types of {0} that the expression takes: f(loat), c(omplex), i(nteger), b(ool)). Each allows any sizes.
_ONE = (
    ("{0} * 2", "fci"), ("{0} + 1", "fci"), ("-{0}", "fci"), ("{0}.abs()", "fci"), ("{0}.sin()", "fc"),
    ("{0}.sigmoid()", "f"), ("{0}.relu()", "fi"), ("{0}.sum(-1)", "fcib"), ("{0}.sum()", "fcib"),
    ("{0}.mean(0)", "fc"), ("{0}.amax(-1)", "fib"), ("{0}.cumsum(0)", "fci"), ("{0}[1:]", "fcib"),
    ("{0}[..., ::2]", "fcib"), ("{0}.mT", "fcib"), ("{0}.reshape(-1)", "fcib"), ("{0}.unsqueeze(0)", "fcib"),
    ("{0}.softmax(-1)", "f"), ("{0}.contiguous()", "fcib"), ("{0}.clone()", "fcib"), ("{0}.conj()", "c"),
    ("{0}.real", "c"), ("{0}.imag", "c"), ("torch.view_as_real({0})", "c"), ("{0}.sort(-1).values", "fi"),
    ("{0}.flip(0)", "fcib"), ("{0}.to(torch.float64)", "fi"), ("{0}.view(torch.int32)", "f"),
    ("{0}.diagonal()", "fci"), ("F.layer_norm({0}, {0}.shape[-1:])", "f"), ("{0}.detach()", "fci"),
    ("{0}[0]", "fcib"), ("{0}.roll(1, -1)", "fci"), ("F.pad({0}, (1, 2))", "fci"), ("{0}.expand(3, *{0}.shape)", "fci"),
    ("{0}.unfold(-1, 2, 1)", "fci"), ("{0}.as_strided((2, 2), (2, 1))", "fci"),
    ("{0}.as_strided((2,), (1,), 1)", "fci"),
    ("{0}.index_select(0, torch.tensor([0, 0]))", "fci"), ("{0}.view_as({0})", "fci"), ("{0}.nonzero().sum()", "i"),
    ("F.scaled_dot_product_attention({0}, {0}, {0})", "f"), ("F.gelu({0})", "f"), ("{0}.to(torch.bfloat16)", "f"),
    ("torch.fft.fft({0}).abs()", "fc"), ("{0} * {0}.shape[0]", "fci"), ("{0}.logical_not()", "fib"),
    ("{0}.squeeze(0)", "fci"), ("{0}.chunk(2, -1)[0]", "fci"), ("{0}.prod(-1)", "f"), ("{0}.square().sum(0)", "fc"),
)  # fmt: skip
_TWO = (
    ("{0} + {1}", "fcib"), ("{0} * {1}", "fcib"), ("{0} - {1}", "fci"), ("torch.maximum({0}, {1})", "fi"),
    ("torch.where({0} > 0, {0}, {1})", "fi"), ("{0} @ {1}", "fci"), ("torch.cat([{0}, {1}])", "fcib"),
    ("{0} @ {1}.mT", "fci"), ("F.linear({0}, {1})", "fc"), ("torch.addcmul({0}, {0}, {1})", "fci"),
    ("torch.stack([{0}, {1}])", "fcib"), ("{0} == {1}", "fcib"), ("torch.addmm({0}, {1}, {1}.mT)", "fc"),
    ("{0}.index_add(0, torch.tensor([0]), {1}[:1])", "fci"), ("torch.outer({0}.reshape(-1), {1}.reshape(-1))", "fci"),
)  # fmt: skip
#: Lines that write to argument {0}.
_WRITES = (
    ("{0}.add_(1)", "fci"), ("{0}.mul_(2)", "fci"), ("{0}.add_({1})", "fci"), ("{0}.copy_({1})", "fcib"),
    ("{0}.zero_()", "fcib"), ("{0}[..., 0] = 1", "fcib"), ("{0}[1:].mul_(3)", "fci"), ("{0}.neg_()", "fci"),
    ("{0}.conj_physical_()", "c"), ("{0}.mT.add_(1)", "fci"), ("{0}.clamp_(min=0)", "fi"),
    ("{0}[..., ::2] = {1}[..., ::2]", "fci"),
    ("{0}.masked_fill_({0} > 0, 2)", "fi"), ("{0}.index_fill_(0, torch.tensor([0]), 2)", "fci"),
    ("{0}.view(-1)[:2].add_(1)", "fci"), ("{0}.diagonal().fill_(1)", "fci"), ("{0}.real.add_(1)", "c"),
    ("torch.add({0}, {1}, out={0})", "fci"), ("{0}.sub_({0}.clone())", "fci"), ("{0}.cumsum_(0)", "fci"),
    ("{0}.detach().add_(1)", "fci"),
    ("{0}.index_put_((torch.tensor([0, 0]),), {0}[0].clone(), accumulate=True)", "fci"),
)  # fmt: skip
_MAIN_TYPES = (
    *(("float32",) * 6 + ("complex64",) * 4),
    *("float64", "complex128", "int64", "int32", "uint8", "bool", "float16", "bfloat16"),
)
_SHAPES = (("a", "b"), ("a", "b"), ("b",), ("a",), ("a", "b", "c"), ("a", 1), (1, "b"), (), ("b", "b"), ("b", "c"))


@dataclass(frozen=True)
class _Argument:
    sizes: tuple[str | int, ...]
    dtype: str
    form: Form

    def shape(self, sizes: dict[str, int]) -> Shape:
        return tuple(sizes[n] if isinstance(n, str) else n for n in self.sizes)


def make_calls(seed: int) -> str:
    """The text of function number `seed` and its calls. Later calls may have other sizes, types and forms than
    the first: Dynamo's guards admit these, or Dynamo compiles again."""
    random = Random(seed)
    while (made := _Made.at_random(random)) is None:
        pass
    return made.text()


def _class_of(x: torch.Tensor) -> str:
    return "c" if x.is_complex() else "f" if x.is_floating_point() else "b" if x.dtype == torch.bool else "i"


@dataclass
class _Made:
    random: Random
    sizes: dict[str, int]
    arguments: list[_Argument]
    lines: list[str]
    results: list[str]
    written: set[int]

    @staticmethod
    def at_random(random: Random) -> _Made | None:
        """A random function; None if no drawn line runs on its arguments, or if a result is no tensor."""
        sizes = {name: random.choice((1, 2, 3, 4, 5, 6, 7, 8, 12)) for name in "abc"}
        if random.random() < 0.5:
            sizes = dict(zip("abc", random.sample((2, 3, 4, 5, 6, 7, 8, 12), 3), strict=True))
        main = random.choice(_MAIN_TYPES)
        gradient = random.random() < 0.35 and (main.startswith(("float", "complex", "bfloat")))
        shape = random.choice(_SHAPES)
        arguments = []
        for _ in range(random.choice((1, 1, 2, 2, 3, 4))):
            dtype = main if random.random() < 0.85 else random.choice(_MAIN_TYPES)
            own = shape if random.random() < 0.6 else random.choice(_SHAPES)
            layout = "dense" if random.random() < 0.75 else random.choice(("transposed", "gaps", "part", "inner"))
            arguments.append(_Argument(own, dtype, Form(layout)))
        if gradient:
            arguments = [
                replace(x, form=replace(x.form, gradient=x.dtype.startswith(("float", "complex", "bfloat"))))
                for x in arguments
            ]
        made = _Made(random, sizes, arguments, [], [], set())
        if random.random() < 0.15:  # compiled for an unusual form
            i = random.randrange(len(arguments))
            argument = arguments[i]
            form = random_form(random, argument.shape(sizes), argument.dtype, argument.form)
            if form.kind not in ("gone", "meta", "sparse"):
                arguments[i] = replace(argument, form=form)
        return made if made._write_lines() else None

    def _write_lines(self) -> bool:
        """Draws lines and keeps those that eager runs. Returns whether a line is left and all results are tensors."""
        random = self.random
        memory = Memories()
        scope: dict[str, Any] = {"torch": torch, "F": F, "memory": memory}
        exec("from cuesta.tools.fuzz.calls.call import Plain, Telling, call", scope)
        names = [f"x{i}" for i in range(len(self.arguments))]
        for line in self._making(self.arguments, [Place()] * len(names), self.sizes, 1):
            exec(line, scope)
        values = list(names)
        for _ in range(random.choice((1, 2, 2, 3, 4, 5))):
            write = random.random() < 0.35
            table = _WRITES if write else random.choice((_ONE, _ONE, _TWO))
            first = random.choice(names if write else values + values[-1:])
            kind = _class_of(scope[first])
            text = random.choice([text for text, types in table if kind in types])
            text = text.format(first, random.choice(values))
            line = text if write else f"t{len(self.lines)} = {text}"
            if not _runs(line, scope):
                continue
            self.lines.append(line)
            if write:
                self.written.add(names.index(first))
            else:
                values.append(line.partition(" ")[0])
        made = [name for name in values if name not in names]
        self.results = made[-1:] + [x for x in values[:-1] if random.random() < 0.3]
        if not self.results:
            self.results = [random.choice(names)]
        # A write to a value that is a view of an argument writes to the argument, which a form may not allow.
        return bool(self.lines) and all(isinstance(scope[name], torch.Tensor) for name in self.results)

    def text(self) -> str:
        random = self.random
        dynamic = random.choice((None, None, None, True))
        export = random.choice(("no", "no", "no", "fresh", "loaded"))
        sized = [(i, d) for i, x in enumerate(self.arguments) for d, n in enumerate(x.sizes) if isinstance(n, str)]
        marked = [place for place in sized if random.random() < 0.7] if random.random() < 0.2 or dynamic else []
        if export != "no":
            self.arguments = [replace(x, form=replace(x.form, gradient=False)) for x in self.arguments]
        # Fewer forms for open sizes, because Dynamo takes a second to compile each such program.
        number = OPEN_FORMS if dynamic or marked else FORMS
        forms = [[x.form for x in self.arguments]] + [self._unusual() for _ in range(number)]
        others = [self._other_sizes() for _ in range(3)]
        if export != "no" and any("as_strided" in line for line in self.lines):
            forms = forms[:1]  # as_strided reads other elements of a copy with other strides
        contexts = ["nothing"] * 6 + [
            "thread",
            random.choice(("no_grad", "inference_mode", "autocast", "static address")),
        ]
        transforms = random.choices(("vmap", "func.grad"), k=2) if export == "no" else []
        blocks = [self._call("ordinary", forms[0], [Place()] * len(self.arguments), self.sizes, "nothing", 1)]
        for number in range(1, CALLS + 1):
            chosen = forms[0] if random.random() < 0.35 else random.choice(forms)
            within = random.choice(contexts) if chosen is forms[0] or random.random() < 0.1 else "nothing"
            if number > CALLS - len(transforms):  # last: after a transform, Dynamo leaves the function to eager
                chosen, within = forms[0], transforms[number - CALLS - 1]
            sizes = random.choice(others) if marked and chosen is forms[0] and random.random() < 0.7 else self.sizes
            places = [random_place(random, bool(self.written)) for _ in self.arguments]
            blocks.append(self._call(f"call_{number}", chosen, places, sizes, within, number + 1))
        return text_of(
            self.lines, len(self.arguments), self.results, blocks, dynamic=dynamic, marked=marked, export=export
        )

    def _unusual(self) -> list[Form]:
        forms = [x.form for x in self.arguments]
        for i in {self.random.randrange(len(forms)), self.random.randrange(len(forms))}:
            argument = self.arguments[i]
            forms[i] = random_form(self.random, argument.shape(self.sizes), argument.dtype, argument.form)
        return forms

    def _other_sizes(self) -> dict[str, int]:
        if self.random.random() < 0.2:
            return {name: self.random.choice((0, 1, 2, 3)) for name in self.sizes}
        chosen = self.random.sample((2, 3, 5, 7, 9, 10, 11, 16, 17, 33), len(self.sizes))
        return dict(zip(self.sizes, chosen, strict=True))

    def _call(
        self, name: str, forms: Sequence[Form], places: Sequence[Place], sizes: dict[str, int], within: str, seed: int
    ) -> str:
        arguments = [replace(x, form=form) for x, form in zip(self.arguments, forms, strict=True)]
        gone = any(x.form.kind == "gone" and 0 not in x.shape(sizes) for x in arguments)
        shared = name != "ordinary" and self.random.random() < 0.2
        said = [f"x{i} {t}" for i, f in enumerate(forms) if (t := f.text)]
        said += [f"x{i} {t}" for i, p in enumerate(places) if (t := p.text)]
        lines = self._sharing(arguments, sizes, seed) if shared else None
        if lines is None:
            lines = self._making(arguments, places, sizes, seed)
        else:
            said = [*(f"x{i} {t}" for i, f in enumerate(forms) if (t := f.text)), "one memory"]
        said += ["other sizes"] if sizes is not self.sizes else []
        settings: dict[str, Any] = {"form": ", ".join(said) or "ordinary"}
        if within != "nothing":
            settings["within"] = within
        if any(x.form.gradient for x in arguments) and self.random.random() < 0.7:
            settings["gradient"] = self.random.choice(GRADIENTS)
        if gone:
            settings["gone"] = True
        if [x.form for x in self.arguments] != list(forms):
            settings["foreign"] = True
        return call_block(name, settings, lines, [f"x{i}" for i in range(len(arguments))])

    def _making(
        self, arguments: Sequence[_Argument], places: Sequence[Place], sizes: dict[str, int], seed: int
    ) -> list[str]:
        return [
            line
            for i, (x, place) in enumerate(zip(arguments, places, strict=True))
            for line in argument_lines(f"x{i}", x.shape(sizes), x.dtype, x.form, place, 10 * seed + i)
        ]

    def _sharing(self, arguments: Sequence[_Argument], sizes: dict[str, int], seed: int) -> list[str] | None:
        """Lines in which arguments of the first argument's dtype share a block; at times a tensor is passed twice. None
        if fewer than two arguments can share."""
        random = self.random
        dtype = arguments[0].dtype
        together = [i for i, x in enumerate(arguments) if x.dtype == dtype and not needs_own_memory(x.form)]
        if len(together) < 2:
            return None
        alike = [i for i in together if arguments[i] == arguments[together[0]]]
        lines = []
        twice = alike[1] if len(alike) > 1 and random.random() < 0.3 else None
        offsets = {i: random.choice((0, 0, 0, 1, 2, 5)) for i in together}
        count = max(offsets[i] + block_size(arguments[i].shape(sizes), arguments[i].form.layout) for i in together)
        where = random.choice(("torch", "end", "begin"))
        lines.append(f'm = memory({count}, "{dtype}", "{where}", {10 * seed})')
        for i, x in enumerate(arguments):
            if i == twice:
                lines.append(f"x{i} = x{together[0]}")
            elif i in together:
                place = Place("torch", offsets[i])
                lines += argument_lines(f"x{i}", x.shape(sizes), x.dtype, x.form, place, 10 * seed + i, memory="m")
            else:
                lines += argument_lines(f"x{i}", x.shape(sizes), x.dtype, x.form, Place(), 10 * seed + i)
        return lines


def _runs(line: str, scope: dict[str, Any]) -> bool:
    """Whether eager runs the line, and the value that it defines is not too large."""
    with warnings.catch_warnings(), contextlib.suppress(Exception):
        warnings.simplefilter("ignore")
        exec(line, scope)
        name = line.partition(" = ")[0]
        made = scope.get(name)
        if made is None or (
            isinstance(made, torch.Tensor) and made.numel() <= _LARGEST and made.layout == torch.strided
        ):
            return True
        del scope[name]
    return False
