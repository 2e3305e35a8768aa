"""Reports to the user: what a compile did (`compile_report`), what an audit found, how far a long compile is.

In come facts from every level as plain data, out come text and dictionaries. Imports nothing but cuesta/options.py
and cuesta/runtime, which declares what an artefact keeps of a report, so that every level may use it.
"""
