"""Builds the sums over the lanes of 16 vectors at once, as one vector, by shuffles."""

from __future__ import annotations

from cuesta._mlir import arith, ir, vector
from cuesta.lowering.linalg_to_loops.vector_loops import LANES


class AddedAcross:
    """Takes 16 vectors one by one, and adds up what it can at once: at most five are in registers. In the end lane i of
    one vector is the sum over vector i, by 15 additions in all."""

    def __init__(self) -> None:
        #: vectors, each with the number of lanes in which the parts of one sum lie
        self.left: list[tuple[int, ir.Value]] = []

    def take(self, x: ir.Value) -> None:
        """Takes the next vector."""
        lanes = LANES
        while self.left and self.left[-1][0] == lanes:
            _, before = self.left.pop()
            half = lanes // 2
            low = [LANES * i + group + j for i in range(2) for group in range(0, LANES, lanes) for j in range(half)]
            high = [place + half for place in low]
            x = arith.addf(vector.shuffle(before, x, low), vector.shuffle(before, x, high))
            lanes = half
        self.left.append((lanes, x))

    def sums(self) -> ir.Value:
        """The vector of sums, once 16 vectors were taken."""
        ((_, x),) = self.left
        return x
