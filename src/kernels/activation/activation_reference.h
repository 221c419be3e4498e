// activation_reference.h: the definition of the activations' kernels, one value at a time. For the registry
// only.
#pragma once

#include "kernels/activation/activation.h"

namespace samestep {

void SwigluForwardReference(const Call& call);
void SwigluBackwardReference(const Call& call);
void GeluForwardReference(const Call& call);
void GeluBackwardReference(const Call& call);
void GeluTanhForwardReference(const Call& call);
void GeluTanhBackwardReference(const Call& call);

}  // namespace samestep
