"""Commands for users and developers: cuesta-opt, cuesta-run, cuesta-bench, cuesta-demo, the fuzzer, the surveys.

May import all of cuesta; nothing imports a tool.
"""
