// samestep recipe docs|check|show: the schema of recipes, and one recipe with its defaults.
#include "recipe/recipe.h"

#include "cli/command.h"

namespace samestep {
namespace {

struct RecipeArguments {
  std::string recipe;
  std::vector<std::string> set;
};

using RecipeAction = int (*)(const RecipeArguments&, const Recipe&, const Output&);

int Check(const RecipeArguments& a, const Recipe& recipe, const Output& out) {
  const std::string digest = RecipeDigest(recipe).hex();
  out.Result({{"recipe", a.recipe}, {"valid", true}, {"recipe_digest", digest}},
             fmt::format("{} is valid; recipe digest {}", a.recipe, digest));
  return 0;
}

int Show(const RecipeArguments& a, const Recipe& recipe, const Output& out) {
  const std::string text = CanonicalText(recipe);
  const std::string digest = RecipeDigest(recipe).hex();
  out.Result({{"recipe", a.recipe}, {"recipe_digest", digest}, {"text", text}},
             fmt::format("# recipe digest {}\n\n{}", digest, text));
  return 0;
}

CommandSetup OnRecipe(RecipeAction action) {
  return [action](CLI::App& app) -> CommandRun {
    auto a = std::make_shared<RecipeArguments>();
    app.add_option("RECIPE", a->recipe, "Recipe (TOML)")->required();
    app.add_option("--set", a->set, "Override a field: --set train.steps=20 (repeatable)")
        ->allow_extra_args(false);
    return [a, action](const Output& out) {
      const Result<Recipe> recipe = LoadRecipe(a->recipe, a->set);
      return recipe.ok() ? action(*a, *recipe, out) : out.Error(recipe.status());
    };
  };
}

const bool registered[] = {
    RegisterCommand("recipe docs", "Print the page that documents every field (Markdown)",
                    [](CLI::App&) -> CommandRun {
                      return [](const Output& out) {
                        const std::string page = RecipeDocumentation();
                        out.Result({{"page", page}}, page);
                        return 0;
                      };
                    }),
    RegisterCommand("recipe check", "Check a recipe and print its digest", OnRecipe(Check)),
    RegisterCommand("recipe show", "Print a recipe with all defaults, and its digest", OnRecipe(Show)),
};

}  // namespace
}  // namespace samestep
