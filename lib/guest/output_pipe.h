// One of the program's output pipes: says when there is something to read. Owned by an execution.
// Agent thread only.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "lib/base/bytes.h"
#include "lib/base/fd.h"
#include "lib/guest/core/output_log.h"
#include "lib/guest/input_pipe.h"

namespace sandbroker::guest {

// Memory that pipes are read into; a buffer that was filled well becomes part of the log as it is,
// and comes back here when the last reader has let go of it. One for the whole agent.
class ReadBuffer {
 public:
  // Whole pages, and with the headers of its frame and of the WebSocket around it still one write
  // of at most 64 KiB, which is what Asio hands to the kernel at once.
  static constexpr size_t kSize = 60 * 1024;

  char* data();
  // Puts the first `count` bytes behind the log's end.
  void MoveInto(OutputLog* log, int fd, size_t count);

 private:
  // Mapped, not from the heap: what is beyond the few that are kept goes back to the kernel.
  class Pool {
   public:
    ~Pool();
    char* Take();
    void Return(char* memory);

   private:
    static constexpr size_t kKept = 24;
    std::vector<char*> free_;
  };

  std::shared_ptr<Pool> pool_ = std::make_shared<Pool>();
  std::shared_ptr<char> memory_;
};

class OutputPipe : public std::enable_shared_from_this<OutputPipe> {
 public:
  // `number` is the program's fd: 1 or 2.
  OutputPipe(boost::asio::io_context& io, UniqueFd fd, int number);

  // `fn` runs once when there is something to read or the end was reached. One wait at a time.
  void Wait(std::function<void()> fn);
  // Bytes read; 0 = end; -1 = nothing there now.
  ssize_t Read(char* buffer, size_t size);
  void Close();
  // Reads on and throws away until the end, so that those who still print into it are not hurt.
  void DrainToNowhere();

  int number() const { return number_; }
  bool open() const { return descriptor_.is_open(); }
  bool waiting() const { return waiting_; }

 private:
  Descriptor descriptor_;
  const int number_;
  uint64_t total_ = 0;
  bool waiting_ = false;
};

}  // namespace sandbroker::guest
