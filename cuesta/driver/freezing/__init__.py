"""`options={"freezing": True}`: packs the weights of an inference graph once and keeps them packed.

In comes an ATen graph, out comes one whose products and convolutions take packed weights. A weight is packed anew when
its parameter changes.
"""
