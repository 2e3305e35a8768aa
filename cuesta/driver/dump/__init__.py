"""Writes what a developer needs to look into a compile, and what reproduces a failure.

In comes a graph during its compile. Out come files of every stage and kernel (`stages`), a picture (`picture`), the
command that reproduces a failure (`reproducer`), a smaller graph that fails (`minifier`), and what torch's logs and
profiler show (`logs`).
"""
