// memory.h: how many bytes a training will allocate, before it does.
//
//   SAMESTEP_RETURN_IF_ERROR(CheckMemory(config));
//
// Determinism: a function of the configuration; the comparison is with this machine's memory.
#pragma once

#include "base/status.h"
#include "train/trainer.h"

namespace samestep {

// Weights, gradients, moments, activations and the order of samples; within a few per cent of what training
// allocates, unless documents are much shorter than samples.
double TrainingBytes(const TrainerConfig& config);
// kUsage, with the ways out, if that is more than the machine has.
Status CheckMemory(const TrainerConfig& config);

}  // namespace samestep
