#include "lib/backend/local/receipt_files.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace sandbroker::local {
namespace {

using broker::Receipt;

class ReceiptFilesTest : public ::testing::Test {
 protected:
  ReceiptFilesTest() {
    char pattern[] = "/tmp/receiptsXXXXXX";
    directory_ = mkdtemp(pattern);
    files_ = std::make_unique<ReceiptFiles>(directory_ + "/receipts");
    EXPECT_TRUE(files_->MakeDirectory().ok());
  }
  ~ReceiptFilesTest() override { std::filesystem::remove_all(directory_); }

  static Receipt Make(const std::string& token) {
    Receipt receipt;
    receipt.body_hash = std::string(64, 'a');
    receipt.token = token;
    receipt.owner = "me";
    return receipt;
  }
  size_t FileCount() const {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(directory_ + "/receipts")) {
      (void)entry;
      ++count;
    }
    return count;
  }

  std::string directory_;
  std::unique_ptr<ReceiptFiles> files_;
};

TEST_F(ReceiptFilesTest, Create_IsExclusive) {
  EXPECT_EQ(*files_->Create("k", Make("t1")), true);
  EXPECT_EQ(*files_->Create("k", Make("t2")), false);
  EXPECT_EQ((**files_->Read("k")).token, "t1");
  EXPECT_EQ(FileCount(), 1u);  // no temporary stays behind
}

TEST_F(ReceiptFilesTest, CompareAndSet_TestsTheToken) {
  EXPECT_EQ(*files_->CompareAndSet("k", "t1", Make("t2")), false);
  ASSERT_TRUE(files_->Create("k", Make("t1")).ok());
  EXPECT_EQ(*files_->CompareAndSet("k", "other", Make("t2")), false);
  EXPECT_EQ(*files_->CompareAndSet("k", "t1", Make("t2")), true);
  EXPECT_EQ((**files_->Read("k")).token, "t2");
  EXPECT_EQ(FileCount(), 1u);
}

TEST_F(ReceiptFilesTest, Read_MissingIsNothingAndDamagedIsAnError) {
  EXPECT_EQ(*files_->Read("none"), std::nullopt);
  std::ofstream(directory_ + "/receipts/bad") << "state=bo";
  EXPECT_FALSE(files_->Read("bad").ok());
}

}  // namespace
}  // namespace sandbroker::local
