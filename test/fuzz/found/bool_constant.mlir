// RUN: cuesta-run --compare-reference %s

// Every number but 0 is True: 2 was cut to its last bit.
func.func @graph(%x: tensor<8xi1> {cuesta.strides = [1]}) -> (tensor<8xi1> {cuesta.strides = [1]}) {
  %0 = "cuesta.constant"() {value = 2 : i64} : () -> tensor<i1>
  %1 = "cuesta.bitwise_xor"(%x, %0) : (tensor<8xi1>, tensor<i1>) -> tensor<8xi1>
  return %1 : tensor<8xi1>
}
