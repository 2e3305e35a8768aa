"""Reports to the user: what a compile did (`compile_report`), what an audit found, how far a long compile is.

In come facts from every level as plain data, out come text and dictionaries. Imports nothing but cuesta/options.py, so
that every level may use it.
"""
