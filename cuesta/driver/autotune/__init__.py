"""Choices that are made by time: who computes something, and in what tiles.

In comes a question of a pass or of the driver (cuesta/policy has the rules that answer it without measuring), out comes
an answer, which is kept in the cache (`choice_store`). `machine_trial` asks once a machine about kinds of products and
attention (`specimen`), `measured_choices` about one graph's own kernels (`max_autotune`).
"""
