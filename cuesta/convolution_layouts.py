"""In which layout oneDNN computes a convolution with less to move: one rule for each graph alone (`choose-layouts`),
and for what the two graphs of a training step hand to one another (`frontend/saved_layouts`)."""

from __future__ import annotations

from collections.abc import Sequence

from cuesta.sizes import Number, estimate


def moves_less_in_channels_last(images: Sequence[Number], weight: Sequence[Number], results: Sequence[Number]) -> bool:
    """Whether the images that a row-major call converts have more elements than the weight, of the shape [O, I, H, W].

    On one core of a Xeon with AVX-512, in ms, the weight's conversion counted: 2x64x56x56, 3x3 to 64, 2.80 for 3.12;
    2x256x14x14, 3x3 to 256, 3.0 for 2.9; 2x512x7x7, 3x3 to 512, 5.3 for 3.6; 2x960x7x7, 5x5 in 960 groups, 0.16 for
    0.25.
    """
    *_, height, width = weight
    converted = 0 if height == width == 1 else estimate(weight)
    return converted <= estimate(images) + estimate(results)
