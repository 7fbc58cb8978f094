#include "lib/guest/output_pipe.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace sandbroker::guest {
namespace {

constexpr uint64_t kBulk = 1024 * 1024;
constexpr int kBulkPipe = 1024 * 1024;

}  // namespace

char* ReadBuffer::data() {
  if (!memory_) memory_ = std::make_shared_for_overwrite<char[]>(kSize);
  return memory_.get();
}

void ReadBuffer::MoveInto(OutputLog* log, int fd, size_t count) {
  if (count < kSize - kSize / 4) {
    log->AppendCopy(fd, {memory_.get(), count});
    return;
  }
  const char* const begin = memory_.get();
  log->Append(fd, SharedBytes(std::shared_ptr<const char>(std::move(memory_), begin), count));
}

OutputPipe::OutputPipe(boost::asio::io_context& io, UniqueFd fd, int number)
    : descriptor_(io, fd.Release()), number_(number) {}

void OutputPipe::Wait(std::function<void()> fn) {
  if (!descriptor_.is_open() || std::exchange(waiting_, true)) return;
  descriptor_.async_wait(Descriptor::wait_read, [self = shared_from_this(), fn = std::move(fn)](
                                                    boost::system::error_code error) {
    self->waiting_ = false;
    if (!error) fn();
  });
}

ssize_t OutputPipe::Read(char* buffer, size_t size) {
  while (true) {
    const ssize_t n = ::read(descriptor_.native_handle(), buffer, size);
    if (n >= 0) {
      // A bulk copy is cheaper through a larger pipe. Refused beyond the user's limit; no matter.
      if (total_ < kBulk && total_ + n >= kBulk) {
        ::fcntl(descriptor_.native_handle(), F_SETPIPE_SZ, kBulkPipe);
      }
      total_ += static_cast<uint64_t>(n);
      return n;
    }
    if (errno == EAGAIN) return -1;
    if (errno != EINTR) return 0;
  }
}

void OutputPipe::Close() {
  boost::system::error_code ignored;
  descriptor_.close(ignored);
}

void OutputPipe::DrainToNowhere() {
  char sink[16 * 1024];
  for (int turn = 0; turn < 16 && descriptor_.is_open(); ++turn) {
    const ssize_t n = Read(sink, sizeof(sink));
    if (n == 0) return Close();
    if (n < 0) break;
  }
  Wait([self = shared_from_this()] { self->DrainToNowhere(); });
}

}  // namespace sandbroker::guest
