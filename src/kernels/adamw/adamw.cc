#include "kernels/adamw/adamw.h"

#include "kernels/adamw/adamw_reference.h"
#include "numerics/targets.h"
//
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/adamw/adamw-inl.h"
#include "hwy/foreach_target.h"
//
#include "kernels/adamw/adamw-inl.h"

#if HWY_ONCE
namespace samestep {
namespace {

HWY_EXPORT(AdamWFast);

std::vector<Attribute> Attributes(const AdamWScalars& s) {
  return {RealAttribute("lr", s.lr),
          RealAttribute("clip", s.clip),
          RealAttribute("c1", s.c1),
          RealAttribute("c2", s.c2),
          RealAttribute("beta1", s.beta1),
          RealAttribute("beta2", s.beta2),
          RealAttribute("one_minus_beta1", s.one_minus_beta1),
          RealAttribute("one_minus_beta2", s.one_minus_beta2),
          RealAttribute("eps", s.eps),
          RealAttribute("weight_decay", s.weight_decay)};
}

std::vector<Problem> Problems() {
  const auto problem = [](const char* label, Shape shape, Fill fill, float weight_decay, bool timed) {
    const AdamWScalars scalars{.lr = 3e-4f,
                               .clip = 0.7f,
                               .c1 = 1.3f,
                               .c2 = 2.1f,
                               .beta1 = 0.9f,
                               .beta2 = 0.95f,
                               .one_minus_beta1 = 0.1f,
                               .one_minus_beta2 = 0.05f,
                               .eps = 1e-8f,
                               .weight_decay = weight_decay};
    return Problem{.label = label,
                   .arguments = {{shape},
                                 {shape, fill},
                                 {shape, fill},
                                 {shape, fill == Fill::kZero ? fill : Fill::kPositive},
                                 {{2}, Fill::kOutput, 1, DType::kU64}},
                   .attributes = Attributes(scalars),
                   .timed = timed};
  };
  return {problem("1", {1}, Fill::kNormal, 0, false),
          problem("zero gradient", {37}, Fill::kZero, 0.1f, false),
          problem("wild", {3, 1023}, Fill::kWild, 0.1f, false),
          problem("many tasks", {50, 1021}, Fill::kNormal, 0.1f, false),
          problem("16M", {4096, 4096}, Fill::kNormal, 0.1f, true)};
}

}  // namespace

const Kernel& kAdamW = RegisterKernel(
    {.name = "adamw",
     .version = 1,
     .arguments = {{"weights", Access::kUpdate},
                   {"gradient", Access::kRead},
                   {"first_moment", Access::kUpdate},
                   {"second_moment", Access::kUpdate},
                   {"fingerprint", Access::kWrite}},
     .reference = AdamWReference,
     .fast = [](const Call& call) { HWY_DYNAMIC_DISPATCH(AdamWFast)(call); },
     .problems = Problems,
     .summary =
         "w = fma(-lr, fma(wd, w, u), w), u = (m*c1) / (sqrt(v*c2) + eps); no sum but the fingerprint of "
         "the new weights"});

void AdamW(const TensorView& weights, const TensorView& gradient, const TensorView& first_moment,
           const TensorView& second_moment, const TensorView& fingerprint, const AdamWScalars& scalars) {
  for (const TensorView* view : {&weights, &gradient, &first_moment, &second_moment}) {
    SAMESTEP_CHECK(view->contiguous());
    SAMESTEP_CHECK_EQ(view->elements(), weights.elements());
  }
  Call call(kAdamW);
  call.Update(weights).Read(gradient).Update(first_moment).Update(second_moment).Write(fingerprint);
  for (const Attribute& a : Attributes(scalars)) call.Set(a.name, a.real);
  Run(call);
}

}  // namespace samestep
#endif  // HWY_ONCE
