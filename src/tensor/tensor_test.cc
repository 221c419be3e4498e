#include "tensor/tensor.h"

#include <gtest/gtest.h>

namespace samestep {
namespace {

TEST(Tensor, SliceKeepsItsPlaceInTheLogicalTensor) {
  Tensor x = Tensor::Zeros({4, 3, 8});
  TensorView part = x.view().Within({16, 3, 8}, {8, 0, 0}).Slice(1, 2);
  EXPECT_EQ(part.shape, (Shape{2, 3, 8}));
  EXPECT_EQ(part.offsets, (Shape{9, 0, 0}));
  EXPECT_EQ(part.f32(), x.f32() + 24);
  EXPECT_EQ(part.rows(), 6);
  EXPECT_EQ(part.row_stride(), 8);
}

TEST(Tensor, ColumnsAreStrided) {
  Tensor x = Tensor::Zeros({5, 12});
  TensorView k = x.view().Columns(4, 4);
  EXPECT_FALSE(k.contiguous());
  EXPECT_EQ(k.row_stride(), 12);
  EXPECT_EQ(k.global_shape, (Shape{5, 4}));
}

TEST(TensorDeathTest, WrongTypeStops) {
  Tensor x = Tensor::Zeros({2}, DType::kI32);
  EXPECT_DEATH(x.f32(), "does not hold");
}

}  // namespace
}  // namespace samestep
