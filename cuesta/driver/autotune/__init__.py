"""Makes choices by measuring: who computes something, and in what tiles.

In comes a question of a pass or of the driver (cuesta/policy has the rules that answer it without measuring), out comes
an answer, which the cache keeps (`choice_store`). `machine_trial` times kinds of products and attention once per
machine (`specimen`). `measured_choices` times one graph's own kernels (`max_autotune`).
"""
