// Cuts the body of a watch, however its bytes come, into lines of bounded length. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sandbroker::kube {

inline constexpr size_t kMaxWatchLine = 8 * 1024 * 1024;

class LineSplitter {
 public:
  explicit LineSplitter(size_t max_line = kMaxWatchLine) : max_line_(max_line) {}

  // False: a line is longer than allowed; nothing more is to be had.
  bool Feed(std::string_view bytes);
  // The next whole line, without its end; empty lines are left out.
  std::optional<std::string> Next();
  // Bytes of a line whose end has not come.
  size_t pending() const { return text_.size() - from_; }

 private:
  const size_t max_line_;
  std::string text_;
  size_t from_ = 0;      // of the line that is next
  size_t searched_ = 0;  // no end before this
  bool too_long_ = false;
};

}  // namespace sandbroker::kube
