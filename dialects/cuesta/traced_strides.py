"""Names the attributes that say how the operands and results of an op lay in memory when the graph was traced.

    %2 = cuesta.mm(%0, %1) {operand_strides = [[8, 1], [1, 8]], result_strides = [[8, 1]]}

Ops that a library may compute carry them: products, convolutions, attention. A call into ATen has the same attributes
(`aten.AtenCall`), where an operand may have any strides.
"""

from cuesta.dialects.fields import NumberRows

#: The strides of each operand, in elements.
OPERAND_STRIDES = NumberRows("operand_strides")
#: The strides of each result, in elements: also what the library is to return.
RESULT_STRIDES = NumberRows("result_strides")
