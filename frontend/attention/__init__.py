"""Attention, from torch's calls to the ops that the importer takes.

In comes Dynamo's graph, out comes the same with each attention as one custom op (`keep_whole`, `attention_ops`), so
that AOTAutograd does not take it apart. The masks are followed to what they mean: constants (`constant_masks`), or
formulas of the position (`symbolic_masks`), which are constants once the sizes are known (`specialised_masks`).
"""
