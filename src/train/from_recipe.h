// from_recipe.h: a recipe's fields in the words of the model, the optimizer and the data.
//
//   TrainerConfig config = TrainerConfigOf(recipe);
//   SAMESTEP_ASSIGN_OR_RETURN(SampleSource source, SampleSource::Open(TrainingDataOf(recipe)));
//
// Determinism: each number is the recipe's decimal, rounded once.
#pragma once

#include "data/sample_source.h"
#include "recipe/recipe.h"
#include "train/trainer.h"

namespace samestep {

TrainerConfig TrainerConfigOf(const Recipe& recipe);
Layout LayoutOf(const Recipe& recipe);
LayoutWidths LayoutWidthsOf(const Recipe& recipe);
DataOptions TrainingDataOf(const Recipe& recipe);
// The validation part of the split, or the sources named for it.
DataOptions ValidationDataOf(const Recipe& recipe);

}  // namespace samestep
