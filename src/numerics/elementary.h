// elementary.h: elementary functions whose bits are the same on every machine, one value at a time.
//
//   float p = ExpZ(z - m);
//   float y = Gelu(x);
//
// Exp, Exp2, Log, Tanh and Erf return the binary32 value nearest to the exact one for every input; the
// others are written sequences of rounded operations. Vectors of them: elementary-inl.h.
//
// Determinism: no libm but fma, which is exact everywhere. Checked over all 2^32 inputs by a slow test.
#pragma once

namespace samestep {

// Correctly rounded.
float Exp(float x);
float Exp2(float x);
float Log(float x);
float Tanh(float x);
float Erf(float x);

// exp(x), but +0 below -87: attention and losses then meet no subnormals.
float ExpZ(float x);
// 1 / (1 + exp(-x))
float Sigmoid(float x);
// x * sigmoid(x)
float Silu(float x);
// (0.5*x) * (1 + erf(x * c)), and its derivative
float Gelu(float x);
float GeluDerivative(float x);
// (0.5*x) * (1 + tanh(k * (x + a*((x*x)*x)))), and its derivative
float GeluTanh(float x);
float GeluTanhDerivative(float x);

}  // namespace samestep
