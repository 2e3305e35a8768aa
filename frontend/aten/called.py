"""Declines ops that no loop over the elements of a result expresses: they stay calls into ATen. Lists the reasons.

Writes to positions that the graph computes are compiled (`scatter.py`), except for those listed here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cuesta.frontend.call import Call
from cuesta.frontend.rules import Decline, imports

_WRITES = "writes to computed positions"
_MATRICES = "matrix decompositions and solvers run in the library (LAPACK)"

#: reason → ops
CALLED: dict[str, tuple[str, ...]] = {
    _WRITES: ("as_strided_scatter",),
    "matrix products run in the library": ("addbmm", "linalg_matrix_exp"),
    "convolutions run in the library": ("convolution_backward",),
    "Fourier transforms run in the library": ("_fft_c2c", "_fft_c2r", "_fft_r2c"),
    _MATRICES: (
        *("cholesky", "cholesky_inverse", "cholesky_solve", "_cholesky_solve_helper", "geqrf", "linalg_cholesky_ex"),
        *("_linalg_det", "_linalg_eigh", "_linalg_eigvals", "_linalg_slogdet", "_linalg_solve_ex", "_linalg_svd"),
        *("linalg_eig", "linalg_householder_product", "linalg_inv_ex", "linalg_ldl_factor_ex", "linalg_ldl_solve"),
        *("linalg_lstsq", "linalg_lu", "linalg_lu_factor_ex", "linalg_lu_solve", "linalg_pinv.atol_rtol_tensor"),
        *("linalg_qr", "linalg_solve_triangular", "lu_unpack", "ormqr", "triangular_solve"),
        "_linalg_check_errors",
    ),
    "segment lengths depend on the data: ATen reduces each segment in one loop": (
        *("segment_reduce", "_segment_reduce_backward"),
    ),
    # Measured on a CPU, with the weights recomputed for each pixel: downscaling took 1.2 to 4.5 of ATen's time.
    "antialiased resize: ATen computes its weights once and keeps them in a table": tuple(
        f"_upsample_{mode}2d_aa{backward}"
        for mode in ("bilinear", "bicubic", "lanczos")
        for backward in ("", "_backward")
    ),
    "random numbers come from torch's generator": (
        *("normal_functional", "rrelu_with_noise_functional", "bernoulli.p"),
        *("bernoulli", "exponential", "geometric", "cauchy", "log_normal", "normal", "uniform", "multinomial"),
        *("poisson", "rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like"),
    ),
}


#: reason → ops that are called for complex numbers only
_CALLED_FOR_COMPLEX = {
    "products with a vector run in the library": ("mv", "addmv", "dot", "vdot"),
    "matrix products run in the library": ("mm", "bmm", "addmm", "baddbmm"),
}


def _declines(reason: str) -> Callable[..., None]:
    def decline(b: Call, *_: Any, **__: Any) -> None:
        raise Decline(reason)

    return decline


for _reason, _names in CALLED.items():
    imports(*_names)(_declines(_reason))
for _reason, _names in [*CALLED.items(), *_CALLED_FOR_COMPLEX.items()]:
    imports(*_names, complex_numbers=True)(_declines(_reason))
