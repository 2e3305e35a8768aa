"""Computes functions of f64 inline, because libm would take a call for each element.

Coefficients are minimax in relative error (`python -m cuesta.tools.minimax`). Numbers that need more than 53 bits are
kept in two doubles.
"""
