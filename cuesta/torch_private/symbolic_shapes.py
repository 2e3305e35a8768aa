"""Symbolic sizes. Torch calls the module experimental. Loads sympy."""

from torch.fx.experimental.symbolic_shapes import (
    ShapeEnv,
    free_unbacked_symbols,
    guard_or_false,
    guard_or_true,
    statically_known_true,
)

__all__ = [
    # Holds symbols and guards. Without it, a graph cannot be traced again for given sizes.
    "ShapeEnv",
    # Symbols of sizes that the data decide. Without it, such graphs raise GuardOnDataDependentSymNode.
    "free_unbacked_symbols",
    # A condition's value, or False (True) where the data decide it; adds a guard. Without them, rules and
    # decompositions that depend on a size raise GuardOnDataDependentSymNode.
    "guard_or_false",
    "guard_or_true",
    # Whether a condition holds for all sizes; adds no guard. Without it, asking compiles a graph again for other sizes.
    "statically_known_true",
]
