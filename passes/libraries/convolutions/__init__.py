"""Who computes each convolution, in which form, and with what around it; passes, one a file, and what they share.

Input and output are functions of cuesta ops. What comes out is a convolution in another form, a call, products, sums
over windows, or ops that follow a call. May import passes/analysis, passes/infra, passes/graph, `products` beside it
and cuesta/policy.
"""
