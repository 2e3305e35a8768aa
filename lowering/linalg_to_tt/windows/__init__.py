"""Writes kernels that read windows: sums over the places of each window, and sums over all windows for the gradient of
their weights.

    images.py         what a block of windows reads of a tensor, line by line
    sums.py           each element that a program loads is added to all sums that need it
    weight_sums.py    each element that a program loads is multiplied by the gradients of all windows that have it
    behind.py         what follows a sum, such as an activation, and its mask

In: a kernel's writer, where its blocks start, and how many rows and neighbouring columns a thread has. Out: the
kernel's body. Imports the writer, which knows nothing of windows.
"""

from cuesta.lowering.linalg_to_tt.windows.sums import write_windows
from cuesta.lowering.linalg_to_tt.windows.weight_sums import write_window_weights

__all__ = ["write_window_weights", "write_windows"]
