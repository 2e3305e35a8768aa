"""Decides which ops become one kernel.

The input is a function of linalg ops. The output is groups of these ops (`grouping`), each over one iteration space
(`space`) and within the limits of a machine (`limits`).
"""
