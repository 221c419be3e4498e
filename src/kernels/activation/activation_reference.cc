#include "kernels/activation/activation_reference.h"

#include <cmath>

#include "numerics/elementary.h"

namespace samestep {
namespace {

float* Row(const TensorView& view, int64_t row) { return view.f32() + row * view.row_stride(); }

// dst = function(src), of a call (src, dst).
void Forward(const Call& call, float (*function)(float)) {
  const TensorView &src = call.view(0), &dst = call.view(1);
  for (int64_t row = 0; row < src.rows(); ++row) {
    for (int64_t i = 0; i < src.columns(); ++i) Row(dst, row)[i] = function(Row(src, row)[i]);
  }
}

// diff_src = diff_dst * derivative(src), of a call (src, diff_dst, diff_src).
void Backward(const Call& call, float (*derivative)(float)) {
  const TensorView &src = call.view(0), &diff_dst = call.view(1), &diff_src = call.view(2);
  for (int64_t row = 0; row < src.rows(); ++row) {
    for (int64_t i = 0; i < src.columns(); ++i) {
      Row(diff_src, row)[i] = Row(diff_dst, row)[i] * derivative(Row(src, row)[i]);
    }
  }
}

}  // namespace

void SwigluForwardReference(const Call& call) {
  const TensorView &gate = call.view(0), &up = call.view(1), &dst = call.view(2);
  for (int64_t row = 0; row < gate.rows(); ++row) {
    for (int64_t i = 0; i < gate.columns(); ++i) {
      const float g = Row(gate, row)[i], u = Row(up, row)[i];
      const float s = Sigmoid(g);
      const float a = g * s;
      Row(dst, row)[i] = a * u;
    }
  }
}

void SwigluBackwardReference(const Call& call) {
  const TensorView &gate = call.view(0), &up = call.view(1), &diff_dst = call.view(2);
  const TensorView &diff_gate = call.view(3), &diff_up = call.view(4);
  for (int64_t row = 0; row < gate.rows(); ++row) {
    for (int64_t i = 0; i < gate.columns(); ++i) {
      const float g = Row(gate, row)[i], u = Row(up, row)[i], dy = Row(diff_dst, row)[i];
      const float s = Sigmoid(g);
      const float a = g * s;
      const float du = dy * a;
      const float dg = (dy * u) * (s * std::fma(g, 1 - s, 1.0f));
      Row(diff_gate, row)[i] = dg;
      Row(diff_up, row)[i] = du;
    }
  }
}

void GeluForwardReference(const Call& call) { Forward(call, Gelu); }
void GeluBackwardReference(const Call& call) { Backward(call, GeluDerivative); }
void GeluTanhForwardReference(const Call& call) { Forward(call, GeluTanh); }
void GeluTanhBackwardReference(const Call& call) { Backward(call, GeluTanhDerivative); }

}  // namespace samestep
