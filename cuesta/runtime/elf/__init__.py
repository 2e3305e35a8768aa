"""Machine code into memory: object files (ELF) are read, linked with what they call, and made executable.

In come an object's bytes and the addresses of symbols, out come addresses of its functions (`loader`).
"""
