"""What files may hold: one schema of types and of what has to hold between them. `metadata.py` is the way in."""
