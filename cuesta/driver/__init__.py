"""Drives a compile: from torch.compile's backend through all stages to a program that can be called.

`backend` is what torch.compile calls. `compile_graph` decides how a graph runs. A graph that can be one program goes
through `make_program`, which looks the program up in the cache or compiles it: `lower` runs the stages of passes and
lowerings, `loading` loads the artefact, `calling` binds the program to AOTAutograd's list of arguments. Other graphs
run in other ways: in `pieces`, as one program for each set of sizes (`specialise`), without a kernel that fails
(`going_around`), op by op (`op_by_op`).

The subfolders: `cache` on the disk, `background` for what another process compiles, `late` for code that is finished
when it is needed, `memory` for limits, `freezing` of weights, `autotune` for measured choices, `dump` for debugging.

May import all of cuesta but export and tools.
"""
