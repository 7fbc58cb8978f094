#include "lib/kube/http_answer.h"

#include <boost/asio/buffer.hpp>
#include <utility>

#include "lib/base/strings.h"

namespace sandbroker::kube {

namespace http = boost::beast::http;

HttpAnswer::HttpAnswer(size_t max_body) {
  parser_.body_limit(max_body);
  parser_.header_limit(kMaxHeaders);
}

HttpAnswer::~HttpAnswer() = default;

bool HttpAnswer::Feed(std::string_view bytes) {
  if (!error_.empty()) return false;
  any_ = any_ || !bytes.empty();
  pending_.append(bytes);
  return Parse();
}

bool HttpAnswer::Parse() {
  size_t used = 0;
  while (used < pending_.size() && !done()) {
    const bool head_was_done = head_done();
    parser_.eager(head_was_done);
    boost::system::error_code error;
    const size_t taken =
        parser_.put(boost::asio::buffer(pending_.data() + used, pending_.size() - used), error);
    used += taken;
    if (error == http::error::need_more) break;
    if (error) {
      error_ = error == http::error::body_limit ? "the answer is too large" : error.message();
      return false;
    }
    if (head_done() && status() < 200) {
      error_ = StrCat("an interim answer ", status(), " that nobody asked for");
      return false;
    }
    // Its reader may want to lift the limit before the body.
    if (!head_was_done && head_done()) break;
    if (taken == 0) break;
  }
  pending_.erase(0, used);
  return true;
}

bool HttpAnswer::FeedEnd() {
  if (!error_.empty() || !any_) return false;
  if (done()) return true;
  boost::system::error_code error;
  parser_.put_eof(error);
  if (error) error_ = "the answer was cut off";
  return !error && done();
}

std::string HttpAnswer::Header(std::string_view name) const {
  const auto value = parser_.get()[boost::string_view(name.data(), name.size())];
  return {value.data(), value.size()};
}

std::string HttpAnswer::TakeBody() { return std::exchange(parser_.get().body(), std::string()); }

void HttpAnswer::Endless() {
  if (parser_.chunked()) parser_.body_limit(boost::none);
}

}  // namespace sandbroker::kube
