"""Parts of multiply-quantised: what a generic must sum for it (term), and how bytes become vectors (unpacking)."""
