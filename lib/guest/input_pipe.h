// The program's stdin: what the pipe does not take at once waits here, bounded by the credit that
// was given for it. Owned by an execution. Agent thread only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/basic_stream_descriptor.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string_view>

#include "lib/base/bytes.h"
#include "lib/base/fd.h"

namespace sandbroker::guest {

using Descriptor =
    boost::asio::posix::basic_stream_descriptor<boost::asio::io_context::executor_type>;

class InputPipe : public std::enable_shared_from_this<InputPipe> {
 public:
  static constexpr uint64_t kWindow = 256 * 1024;

  struct Events {
    std::function<void()> on_room;    // the pipe took more
    std::function<void()> on_closed;  // the program will read no more
  };
  InputPipe(boost::asio::io_context& io, UniqueFd fd, Events events);
  void Start();

  void Write(std::string_view bytes);
  // Closes the pipe once all that was written has gone into it.
  void Finish();
  // Drops what waits and closes; no event afterwards.
  void Close();

  // Bytes that may be written without waiting longer than the program makes them.
  uint64_t room() const { return waiting_bytes_ >= kWindow ? 0 : kWindow - waiting_bytes_; }

 private:
  // Bytes taken, or -1 when the program has closed its end.
  ssize_t WriteNow(std::string_view bytes);
  void Drain();
  void WaitWritable();
  void WaitForReaderGone();
  void OnGone();
  void CloseFd();

  Descriptor descriptor_;
  Events events_;
  std::deque<SharedBytes> waiting_;
  uint64_t waiting_bytes_ = 0;
  uint64_t written_ = 0;
  bool waiting_writable_ = false;
  bool finish_ = false;
};

}  // namespace sandbroker::guest
