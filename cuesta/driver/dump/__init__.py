"""What a developer can look at, and how a failure is repeated.

In comes a graph on its way, out come files of every stage (`stages`), of each kernel and a picture (`dump_kernels`),
the command that repeats a failure (`reproducer`), a smaller graph that fails (`minifier`), and what torch's logs and
profiler show (`logs`, `profiling`).
"""
