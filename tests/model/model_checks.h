// What is asked of the model of every protocol: every interleaving at small bounds, long random
// runs, and each rule of its table switched off once, to show that the model would notice.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>

#include "tests/support/explorer.h"

namespace sandbroker::model {

// `Model` is made of its bounds and the rule that is off; Rule::kNone = none.
template <typename Model, typename Bounds, typename Rule>
struct ModelChecks {
  static void ExpectClean(const char* what, const Bounds& bounds) {
    const testing::Explored explored = Everything(bounds, Rule::kNone);
    Print(what, explored);
    EXPECT_TRUE(explored.complete);
    EXPECT_EQ(explored.violation, "") << explored.Text();
  }

  static void ExpectCleanAtRandom(const Bounds& bounds, uint32_t seed, int runs, int steps) {
    const testing::Explored explored =
        testing::Explorer<Model>().Walk(Model(bounds, Rule::kNone), seed, runs, steps);
    Print("random", explored);
    EXPECT_EQ(explored.violation, "") << explored.Text();
  }

  // `bounds`: where the fault shows; the whole protocol is clean at all of them.
  static void ExpectNoticed(const Bounds& bounds, Rule off) {
    const testing::Explored explored = Everything(bounds, off);
    EXPECT_NE(explored.violation, "") << RuleName(off) << ": nothing depends on it";
    std::printf("without '%s': %s, after %zu actions\n", RuleName(off), explored.violation.c_str(),
                explored.trace.size());
  }

 private:
  static testing::Explored Everything(const Bounds& bounds, Rule off) {
    return testing::Explorer<Model>().Everything(Model(bounds, off));
  }

  static void Print(const char* what, const testing::Explored& explored) {
    std::printf("%s: %llu states, %llu steps\n", what,
                static_cast<unsigned long long>(explored.states),
                static_cast<unsigned long long>(explored.steps));
  }
};

}  // namespace sandbroker::model
