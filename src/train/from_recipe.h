// from_recipe.h: a recipe's fields in the words of the trainer; those of the model, the layout and the data
// are plan/from_recipe.h's.
//
//   TrainerConfig config = TrainerConfigOf(recipe);
//
// Determinism: each number is the recipe's decimal, rounded once.
#pragma once

#include "plan/from_recipe.h"
#include "train/trainer.h"

namespace samestep {

TrainerConfig TrainerConfigOf(const Recipe& recipe);

}  // namespace samestep
