"""Loads machine code: reads object files (ELF), links them with the functions they call, and makes them executable.

Inputs are an object's bytes and the addresses of symbols; outputs are the addresses of the object's functions
(`loader`).
"""
