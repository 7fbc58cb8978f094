#include "lib/kube/watch_lines.h"

#include <gtest/gtest.h>

#include <vector>

namespace sandbroker::kube {
namespace {

std::vector<std::string> All(LineSplitter* lines) {
  std::vector<std::string> all;
  while (const auto line = lines->Next()) all.push_back(*line);
  return all;
}

TEST(LineSplitterTest, AnyCut_GivesTheSameLines) {
  const std::string text = "one\ntwo\r\n\n\r\nthree\nrest";
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    LineSplitter lines;
    std::vector<std::string> all;
    for (size_t at = 0; at < text.size(); at += piece) {
      ASSERT_TRUE(lines.Feed(text.substr(at, piece)));
      for (const std::string& line : All(&lines)) all.push_back(line);
    }
    EXPECT_EQ(all, (std::vector<std::string>{"one", "two", "three"})) << piece;
    EXPECT_EQ(lines.pending(), 4u);
  }
}

TEST(LineSplitterTest, LinesUpToTheBound_AndNotOneByteMore) {
  LineSplitter lines(5);
  EXPECT_TRUE(lines.Feed("12345\n12345"));
  EXPECT_EQ(All(&lines), std::vector<std::string>{"12345"});
  EXPECT_FALSE(lines.Feed("6"));
  EXPECT_FALSE(lines.Next());
  EXPECT_FALSE(lines.Feed("\n"));
  LineSplitter whole(5);
  EXPECT_FALSE(whole.Feed("1\n123456\n1\n"));
  EXPECT_FALSE(whole.Next());
  LineSplitter many(5);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(many.Feed("1\n2\n"));
  EXPECT_EQ(All(&many).size(), 2000u);
}

}  // namespace
}  // namespace sandbroker::kube
