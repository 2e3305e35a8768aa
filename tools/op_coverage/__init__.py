"""Compiles PyTorch's operators on torch's own sample arguments (OpInfo) with cuesta, and compares them with eager.

entries.py    the operators and their samples
sample.py     runs one sample: as given, with other roundings, or in f64
check.py      judges one sample: right, wrong, raised or refused by torch itself; lists its calls into ATen
positions.py  accepts other positions of equal numbers (sort, topk, …), among which eager may return any
core.py       torch's core overloads, and why some are not compiled
survey.py     runs all samples in several processes; keeps a file of records, from which it can resume
table.py      writes docs/op_coverage.md
"""
