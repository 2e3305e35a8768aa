"""Checks what others install: `version_matrix` runs tests with each Python and torch, `check_dist` builds and tries the
distributions. Both run from a checkout, with the standard library alone."""
