"""Looks for wrong code with random graphs of the cuesta dialect and random torch programs.

`python -m cuesta.tools.fuzz` makes them by number, compares what they compute natively with their reference, and
leaves each failure, reduced, in a file that runs alone.
"""
