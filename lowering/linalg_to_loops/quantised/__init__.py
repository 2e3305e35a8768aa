"""Parts of multiply-quantised: what a generic must sum for it (term), how bytes become vectors (unpacking), and how the
rows that these are multiplied by are laid out (packing)."""
