"""Shows results: tables on a terminal, Markdown pages, pictures, and the ratios kept from run to run.

In come the JSON values of a run, or of files that earlier runs have written (`results`), out comes text or a picture.
Imports `measuring.timing` for medians and quartiles, and `cases` to tell kernels from models.
"""
