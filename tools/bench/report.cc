#include "tools/bench/report.h"

#include <cstdio>

#include "tools/bench/child.h"

namespace sandbroker::bench {
namespace {

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), value < 100 ? "%.1f" : "%.0f", value);
  return text;
}

std::string Ratio(const std::optional<double>& ratio) {
  if (!ratio) return "";
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f", *ratio);
  return text;
}

std::string GoalText(const Row& row) {
  if (!row.goal) return "";
  char text[64];
  const double bound = row.goal->bound;
  switch (row.goal->kind) {
    case Goal::Kind::kRatioAtMost:
      std::snprintf(text, sizeof(text), "<= %.2f x", bound);
      break;
    case Goal::Kind::kRatioAtLeast:
      std::snprintf(text, sizeof(text), ">= %.2f x", bound);
      break;
    case Goal::Kind::kValueAtMost:
      std::snprintf(text, sizeof(text), "< %.0f %s", bound, row.unit.c_str());
      break;
  }
  return std::string(text) + (row.met() ? "  ok" : "  MISS");
}

std::string JsonNumber(const std::optional<double>& value) {
  if (!value) return "null";
  char text[32];
  std::snprintf(text, sizeof(text), "%.6g", *value);
  return text;
}

}  // namespace

bool Row::met() const {
  if (!goal) return true;
  if (goal->kind == Goal::Kind::kValueAtMost) return value < goal->bound;
  if (!ratio()) return false;
  return goal->kind == Goal::Kind::kRatioAtMost ? *ratio() <= goal->bound : *ratio() >= goal->bound;
}

void PrintTable(const std::vector<Row>& rows) {
  std::printf("%-24s %5s %9s %9s %9s %9s %6s  %-18s %s\n", "measure", "unit", "p10", "p50", "p99",
              "floor", "ratio", "goal", "floor is");
  for (const Row& row : rows) {
    std::printf("%-24s %5s %9s %9s %9s %9s %6s  %-18s %s\n", row.name.c_str(), row.unit.c_str(),
                Number(row.samples->Percentile(0.10)).c_str(),
                Number(row.samples->Percentile(0.50)).c_str(),
                Number(row.samples->Percentile(0.99)).c_str(),
                row.floor ? Number(*row.floor).c_str() : "", Ratio(row.ratio()).c_str(),
                GoalText(row).c_str(), row.floor_text.c_str());
  }
}

void WriteJson(const std::vector<Row>& rows, const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) Fail("can't write " + path);
  std::fputs("[", file);
  const char* separator = "\n";
  for (const Row& row : rows) {
    std::fprintf(file,
                 "%s  {\"name\": \"%s\", \"value\": %s, \"unit\": \"%s\", \"floor\": %s, "
                 "\"ratio\": %s, \"p10\": %s, \"p50\": %s, \"p99\": %s, \"samples\": %zu, "
                 "\"goal_met\": %s}",
                 separator, row.name.c_str(), JsonNumber(row.value).c_str(), row.unit.c_str(),
                 JsonNumber(row.floor).c_str(), JsonNumber(row.ratio()).c_str(),
                 JsonNumber(row.samples->Percentile(0.10)).c_str(),
                 JsonNumber(row.samples->Percentile(0.50)).c_str(),
                 JsonNumber(row.samples->Percentile(0.99)).c_str(), row.samples->count(),
                 !row.goal   ? "null"
                 : row.met() ? "true"
                             : "false");
    separator = ",\n";
  }
  std::fputs("\n]\n", file);
  if (std::fclose(file) != 0) Fail("can't write " + path);
}

}  // namespace sandbroker::bench
