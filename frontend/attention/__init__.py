"""Turns torch's attention calls into custom ops that the importer takes.

In Dynamo's graph, each attention becomes one custom op (`keep_whole`, `attention_ops`), so that AOTAutograd does not
decompose it. Masks that the graph computes are evaluated: as constants (`constant_masks`), or over symbolic sizes as
formulas of the position (`symbolic_masks`); once the sizes are known, they are constants (`specialised_masks`).

Attention that one kernel of ours computes is replaced by the ops that define it, just before import (`spelling`):
flex_attention, and attention under a mask that is a tensor.
"""
