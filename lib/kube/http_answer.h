// Reads one HTTP/1.1 answer out of bytes as they come, within limits. Decides where it ends and
// whether the connection may carry another request. Pure but for Beast's parser.
#pragma once

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/clock.h"

namespace sandbroker::kube {

inline constexpr size_t kMaxHeaders = 64 * 1024;

class HttpAnswer {
 public:
  // More body than `max_body` is an error.
  explicit HttpAnswer(size_t max_body);
  ~HttpAnswer();

  // False: what came is no answer we take; error() says why. Stops after the head, once: another
  // call, perhaps with no bytes, goes on with the body.
  bool Feed(std::string_view bytes);
  // The other side has ended the stream. False: in the middle of an answer.
  bool FeedEnd();

  bool any() const { return any_; }
  bool head_done() const { return parser_.is_header_done(); }
  bool done() const { return head_done() && parser_.is_done(); }
  const std::string& error() const { return error_; }

  // Once head_done().
  int status() const { return parser_.get().result_int(); }
  bool keep_alive() const { return parser_.get().keep_alive() && pending_.empty(); }
  std::string Header(std::string_view name) const;

  // What there is of the body so far; the next call answers what follows.
  std::string TakeBody();
  // From now on a body in chunks may go on for ever: its reader takes it piece by piece.
  void Endless();

 private:
  bool Parse();

  boost::beast::http::response_parser<boost::beast::http::string_body> parser_;
  std::string pending_;  // given, but not enough to go on
  std::string error_;
  bool any_ = false;
};

}  // namespace sandbroker::kube
