"""Functions of f64, where libm's would be a call an element.

Coefficients are minimax in relative error (`python -m cuesta.tools.minimax`); what 53 bits do not hold is kept in two
doubles.
"""
