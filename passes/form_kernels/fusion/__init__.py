"""Which ops become one kernel.

In comes a function of linalg ops, out come groups of them (`grouping`), each over one iteration space (`space`),
within the limits of a machine (`limits`).
"""
