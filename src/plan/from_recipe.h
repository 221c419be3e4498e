// from_recipe.h: a recipe's fields in the words of the model, the layout and the data.
//
//   DecoderConfig model = DecoderConfigOf(recipe);
//   SAMESTEP_RETURN_IF_ERROR(CheckLayout(LayoutOf(recipe), LayoutWidthsOf(recipe), group.size()));
//   SAMESTEP_ASSIGN_OR_RETURN(SampleSource source, SampleSource::Open(TrainingDataOf(recipe)));
//
// Determinism: each number is the recipe's decimal, rounded once.
#pragma once

#include "data/sample_source.h"
#include "model/config.h"
#include "parallel/layout.h"
#include "plan/plan.h"
#include "recipe/recipe.h"

namespace samestep {

DecoderConfig DecoderConfigOf(const Recipe& recipe);
Layout LayoutOf(const Recipe& recipe);
LayoutWidths LayoutWidthsOf(const Recipe& recipe);
DataOptions TrainingDataOf(const Recipe& recipe);
// The validation part of the split, or the sources named for it.
DataOptions ValidationDataOf(const Recipe& recipe);
// For ranks of so many threads. Opens the data's index, if it is there.
PlanConfig PlanConfigOf(const Recipe& recipe, int threads);

}  // namespace samestep
