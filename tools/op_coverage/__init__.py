"""PyTorch's operators, by its own samples of their arguments (OpInfo), compiled with cuesta and compared with eager.

entries.py    the operators and their samples
sample.py     one sample: what a run of it gives, and the same with other roundings or in f64
check.py      one sample judged: right, wrong, raised or refused by torch itself, and what was called in ATen
positions.py  positions in rows, of which eager names any of equal numbers
core.py       torch's core overloads, and why some are not compiled
survey.py     all of them, in several processes; a file of records, to be resumed
table.py      docs/op_coverage.md
"""
