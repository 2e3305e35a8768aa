"""cuesta-bench on a GPU: models and small functions, each in a process of its own, against eager and Inductor."""
