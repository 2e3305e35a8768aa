"""Lowers generics that add up: sums along rows that come from memory, long sums, sums at strided places, and the
epilogues of a row's sums. `terms` reads such a generic; `added_across` adds up the lanes of several vectors together.
"""
