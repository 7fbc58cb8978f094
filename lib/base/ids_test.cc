#include "lib/base/ids.h"

#include <gtest/gtest.h>

namespace sandbroker {
namespace {

TEST(Ids, IsValidId_TakesTheDocumentedAlphabetAndLength) {
  EXPECT_TRUE(IsValidId("a"));
  EXPECT_TRUE(IsValidId("A.b_c-9"));
  EXPECT_TRUE(IsValidId(std::string(64, 'x')));
  EXPECT_FALSE(IsValidId(""));
  EXPECT_FALSE(IsValidId(std::string(65, 'x')));
  EXPECT_FALSE(IsValidId("a/b"));
  EXPECT_FALSE(IsValidId("a b"));
  EXPECT_FALSE(IsValidId("é"));
}

TEST(Ids, NewId_IsValidAndDiffersEachTime) {
  EXPECT_EQ(NewId().size(), 32u);
  EXPECT_TRUE(IsValidId(NewId()));
  EXPECT_NE(NewId(), NewId());
}

}  // namespace
}  // namespace sandbroker
