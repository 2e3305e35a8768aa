"""What calls the stages: from torch.compile's backend to a program that can be called.

`backend` is what torch.compile calls. A graph that can be one program goes through `make_program`, which looks into
the cache and compiles what is not there: `compile` runs the frontend's importer and the stages of passes and
lowerings, `loading` makes their result callable, `calling` binds it to AOTAutograd's list of arguments. Other graphs
take a way around: in `pieces`, one program for each set of sizes (`specialise`), without a kernel that fails
(`going_around`), op by op (`op_by_op`).

The rooms: `cache` on the disk, `tiers` in the background, `late` for code that is made when it is needed, `memory` for
limits, `freezing` of weights, `autotune` for choices by time, `dump` for what a developer looks at.

May import all of cuesta but export and tools.
"""
