// describe.h: a comparison as text for people and as JSON for programs.
//
// Determinism: a function of the comparison.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "locate/compare.h"

namespace samestep {

std::string DescribeText(const Comparison& comparison);
nlohmann::ordered_json DescribeJson(const Comparison& comparison);

}  // namespace samestep
