"""Names torch's functions on symbolic sizes. Torch calls the module experimental. Loads sympy."""

# Holds symbols and guards. Without it, a graph cannot be traced again for given sizes.
from torch.fx.experimental.symbolic_shapes import ShapeEnv as ShapeEnv

# Symbols of sizes that the data decide. Without it, such graphs raise GuardOnDataDependentSymNode.
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols as free_unbacked_symbols

# A condition's value, or False (True) where the data decide it; adds a guard. Without them, rules and decompositions
# that depend on a size raise GuardOnDataDependentSymNode.
from torch.fx.experimental.symbolic_shapes import guard_or_false as guard_or_false
from torch.fx.experimental.symbolic_shapes import guard_or_true as guard_or_true

# Whether a condition holds for all sizes; adds no guard. Without it, asking compiles a graph again for other sizes.
from torch.fx.experimental.symbolic_shapes import statically_known_true as statically_known_true
