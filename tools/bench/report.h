// What the bench says at its end: one table on stdout, and the same as JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/bench/samples.h"

namespace sandbroker::bench {

struct Goal {
  enum class Kind { kRatioAtMost, kRatioAtLeast, kValueAtMost } kind;
  double bound;
};

// One line. Its value is one percentile of `samples`, or `value` where that is not what counts.
struct Row {
  std::string name;
  std::string unit;  // "us" or "MB/s"
  const Samples* samples;
  double value;
  std::optional<double> floor;
  std::string floor_text;  // what the floor consists of
  std::optional<Goal> goal;

  std::optional<double> ratio() const {
    return floor ? std::optional<double>(value / *floor) : std::nullopt;
  }
  bool met() const;
};

void PrintTable(const std::vector<Row>& rows);
// A list of {name, value, unit, floor, ratio, ...}.
void WriteJson(const std::vector<Row>& rows, const std::string& path);

}  // namespace sandbroker::bench
