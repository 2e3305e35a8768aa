"""Rules of thumb about who computes something, the library behind ATen or a kernel of ours, and in what layout.

In come sizes, types and the target, out comes a choice, without measuring anything. cuesta/driver/autotune measures,
and answers in the rules' place through `choices`. Imports sizes and targets alone: frontend, passes and driver all ask
here.
"""
