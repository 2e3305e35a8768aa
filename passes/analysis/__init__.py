"""Questions that several passes ask of a graph, each answered once. Nothing here changes a module.

`aliases` says which values share memory, `layout` and `memory_order` where elements lie, `match` reads a graph
upwards, `launches` what a host function says of its kernels.
"""
