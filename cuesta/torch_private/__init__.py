"""Names every private part of torch that cuesta reaches into; no other room names one.

A module is about one part of torch. Each function or name says what it is for, and what cuesta loses where torch has it
no more. Names of operators (torch.ops.aten._softmax) are no private parts: they are what graphs hold.

What needs torch._dynamo, torch._inductor or AOTAutograd takes long to load: such modules say so, and whoever must start
quickly imports them in functions. May import torch and errors.
"""
