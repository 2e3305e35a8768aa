"""Compiled graphs on the disk, seen from one compile.

In comes a graph's text and options, out comes its artefact if an earlier compile has left it (`graph_cache`), or what
torch's own caches keep of it (`output_code`). The files themselves are cuesta/cache.py's.
"""
