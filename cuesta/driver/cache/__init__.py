"""Looks compiled graphs up on the disk and stores them there, for one compile at a time.

In comes a graph's text and options, out comes its artefact if an earlier compile has left it (`graph_cache`), or what
torch's own caches keep of it (`output_code`). cuesta/cache.py reads and writes the files.
"""
