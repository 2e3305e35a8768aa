"""Looks for wrong code with random graphs of the cuesta dialect and random torch programs.

`python -m cuesta.tools.fuzz` generates each graph or program from a seed, compares its compiled results with those of
a reference, and writes each failure to a file that runs alone. The first failure of each kind is reduced first.
"""
