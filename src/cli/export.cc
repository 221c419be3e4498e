// samestep export: a trained model as Hugging Face's transformers loads it.
#include <memory>

#include "checkpoint/hugging_face.h"
#include "cli/command.h"
#include "data/tokenizer.h"
#include "train/trained_model.h"

namespace samestep {
namespace {

struct ExportArguments {
  std::string run, folder, checkpoint;
};

Status Export(const ExportArguments& a, int64_t* step) {
  SAMESTEP_ASSIGN_OR_RETURN(const TrainedModel trained, LoadTrainedModel(a.run, a.checkpoint));
  *step = trained.step;
  int64_t eos = -1;
  if (!trained.recipe.data.tokenizer.empty()) {
    SAMESTEP_ASSIGN_OR_RETURN(const std::shared_ptr<const Tokenizer> tokenizer,
                              OpenTokenizer(trained.recipe.data.tokenizer));
    eos = tokenizer->eod();
  }
  return ExportModel(a.folder, trained.model->config(), trained.model->parameters(),
                     trained.recipe.model.norm_eps.ToString(), eos);
}

int RunExport(const ExportArguments& a, const Output& out) {
  int64_t step = 0;
  if (const Status status = Export(a, &step); !status.ok()) return out.Error(status);
  nlohmann::ordered_json object;
  object["folder"] = a.folder;
  object["step"] = step;
  out.Result(object, fmt::format("wrote {}/model.safetensors and config.json (step {})", a.folder, step));
  return 0;
}

const bool registered =
    RegisterCommand("export", "Write a trained model in Hugging Face's format", [](CLI::App& app) {
      auto a = std::make_shared<ExportArguments>();
      app.add_option("RUN", a->run, "Folder of the run")->required();
      app.add_option("-o,--output", a->folder, "Folder to write")->required();
      app.add_option("--checkpoint", a->checkpoint, "Checkpoint folder (default: the newest of the run)");
      app.footer(
          "Example:\n  samestep export runs/a -o exported\n"
          "  python -c 'from transformers import AutoModelForCausalLM as M; "
          "M.from_pretrained(\"exported\")'");
      return [a](const Output& out) { return RunExport(*a, out); };
    });

}  // namespace
}  // namespace samestep
