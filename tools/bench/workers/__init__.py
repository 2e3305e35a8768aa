"""Runs measurements in processes of their own, so that one neither warms nor breaks the next.

In comes a job (what, case, contenders, device), out comes the JSON that the worker wrote, or why there is none.
`processes` starts workers and ends them, `worker` is what runs in one. Imports `cases` and `measuring`.
"""
