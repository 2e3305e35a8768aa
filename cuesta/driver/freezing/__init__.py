"""`options={"freezing": True}`: weights of an inference graph are packed once and kept so.

In comes an ATen graph, out comes one whose products and convolutions take packed weights, which are made anew when a
parameter changes.
"""
