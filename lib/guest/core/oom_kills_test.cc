#include "lib/guest/core/oom_kills.h"

#include <gtest/gtest.h>

namespace sandbroker::guest {
namespace {

TEST(OomKills, BothVersionsOfCgroups_CountInTheSameLine) {
  EXPECT_EQ(ParseOomKills("low 0\nhigh 0\nmax 12\noom 4\noom_kill 3\noom_group_kill 9\n"), 3u);
  EXPECT_EQ(ParseOomKills("oom_kill_disable 0\nunder_oom 1\noom_kill 7\n"), 7u);
}

TEST(OomKills, NothingToReadOrNonsense_IsNone) {
  for (const char* text : {"", "oom_kill", "oom_kill x\n", "oom_kill -1\n", "xoom_kill 3\n",
                           "oom_kill 99999999999999999999999\n"}) {
    EXPECT_EQ(ParseOomKills(text), 0u) << text;
  }
}

}  // namespace
}  // namespace sandbroker::guest
