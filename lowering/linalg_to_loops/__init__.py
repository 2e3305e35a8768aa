"""linalg on buffers → loops. Upstream's convert-linalg-to-affine-loops does it; beside it stands what it lacks."""
