#include "kernels/activation/activation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/finite_difference.h"
#include "kernels/test_tensor.h"

namespace samestep {
namespace {

const Shape kShape{3, 41};

double Swiglu(double g, double u) { return g / (1 + std::exp(-g)) * u; }
double Gelu(double x, GeluForm form) {
  if (form == GeluForm::kErf) return 0.5 * x * (1 + std::erf(x * std::sqrt(0.5)));
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

TEST(Swiglu, GradientsOfGateAndUp) {
  Tensor gate = Normals(kShape, 1, 3), up = Normals(kShape, 2), dy = Normals(kShape, 3);
  Tensor diff_gate = Tensor::Empty(kShape), diff_up = Tensor::Empty(kShape);
  SwigluBackward(gate.view(), up.view(), dy.view(), diff_gate.view(), diff_up.view());
  const auto loss = [&](const std::vector<double>& g, const std::vector<double>& u) {
    double sum = 0;
    for (size_t i = 0; i < g.size(); ++i) sum += double{dy.f32()[i]} * Swiglu(g[i], u[i]);
    return sum;
  };
  const auto of_gate = [&](const std::vector<double>& g) { return loss(g, Doubles(up)); };
  const auto of_up = [&](const std::vector<double>& u) { return loss(Doubles(gate), u); };
  EXPECT_LT(GradientError(FiniteDifference(of_gate, Doubles(gate)), diff_gate.f32()), 2e-6);
  EXPECT_LT(GradientError(FiniteDifference(of_up, Doubles(up)), diff_up.f32()), 2e-6);
}

class GeluForms : public testing::TestWithParam<GeluForm> {};

TEST_P(GeluForms, Gradient) {
  Tensor x = Normals(kShape, 1, 2), dy = Normals(kShape, 2), dx = Tensor::Empty(kShape);
  GeluBackward(x.view(), dy.view(), dx.view(), GetParam());
  const auto loss = [&](const std::vector<double>& values) {
    double sum = 0;
    for (size_t i = 0; i < values.size(); ++i) sum += double{dy.f32()[i]} * Gelu(values[i], GetParam());
    return sum;
  };
  EXPECT_LT(GradientError(FiniteDifference(loss, Doubles(x)), dx.f32()), 2e-6);
}

TEST_P(GeluForms, ForwardIsNearTheExactValue) {
  Tensor x = Normals(kShape, 1, 2), y = Tensor::Empty(kShape);
  GeluForward(x.view(), y.view(), GetParam());
  for (int64_t i = 0; i < y.elements(); ++i) {
    EXPECT_NEAR(y.f32()[i], Gelu(double{x.f32()[i]}, GetParam()), 1e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Activation, GeluForms, testing::Values(GeluForm::kErf, GeluForm::kTanh));

TEST(Swiglu, ForwardIsNearTheExactValueAndWorksInPlace) {
  Tensor gate = Normals(kShape, 1, 3), up = Normals(kShape, 2), y = Tensor::Empty(kShape);
  SwigluForward(gate.view(), up.view(), y.view());
  for (int64_t i = 0; i < y.elements(); ++i) {
    EXPECT_NEAR(y.f32()[i], Swiglu(double{gate.f32()[i]}, double{up.f32()[i]}), 3e-6);
  }
  SwigluForward(gate.view(), up.view(), gate.view());
  EXPECT_TRUE(SameBits(gate.view(), y.view()));
}

TEST(Swiglu, BackwardWorksInPlace) {
  Tensor gate = Normals(kShape, 1, 3), up = Normals(kShape, 2), dy = Normals(kShape, 3);
  Tensor diff_gate = Tensor::Empty(kShape), diff_up = Tensor::Empty(kShape);
  SwigluBackward(gate.view(), up.view(), dy.view(), diff_gate.view(), diff_up.view());
  SwigluBackward(gate.view(), up.view(), dy.view(), gate.view(), up.view());
  EXPECT_TRUE(SameBits(gate.view(), diff_gate.view()));
  EXPECT_TRUE(SameBits(up.view(), diff_up.view()));
}

}  // namespace
}  // namespace samestep
