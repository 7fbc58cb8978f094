#include "lib/kube/watch_lines.h"

namespace sandbroker::kube {

bool LineSplitter::Feed(std::string_view bytes) {
  if (too_long_) return false;
  text_.erase(0, from_);
  searched_ -= from_;
  from_ = 0;
  text_.append(bytes);
  // Each line is measured, not only the one that is not over yet.
  size_t start = 0;
  for (size_t end = text_.find('\n', searched_); !too_long_; end = text_.find('\n', start)) {
    const size_t stop = end == std::string::npos ? text_.size() : end;
    too_long_ = stop - start > max_line_;
    if (end == std::string::npos) break;
    start = end + 1;
  }
  return !too_long_;
}

std::optional<std::string> LineSplitter::Next() {
  while (!too_long_) {
    const size_t end = text_.find('\n', searched_);
    if (end == std::string::npos) {
      searched_ = text_.size();
      return {};
    }
    const size_t start = from_;
    from_ = searched_ = end + 1;
    const size_t stop = end > start && text_[end - 1] == '\r' ? end - 1 : end;
    if (stop > start) return text_.substr(start, stop - start);
  }
  return {};
}

}  // namespace sandbroker::kube
