#include "lib/guest/output_pipe.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "lib/base/check.h"

namespace sandbroker::guest {
namespace {

constexpr uint64_t kBulk = 1024 * 1024;
constexpr int kBulkPipe = 256 * 1024;

}  // namespace

ReadBuffer::Pool::~Pool() {
  for (char* memory : free_) ::munmap(memory, kSize);
}

char* ReadBuffer::Pool::Take() {
  if (!free_.empty()) {
    char* const memory = free_.back();
    free_.pop_back();
    return memory;
  }
  void* const mapped =
      ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  SANDBROKER_CHECK(mapped != MAP_FAILED);
  return static_cast<char*>(mapped);
}

void ReadBuffer::Pool::Return(char* memory) {
  if (free_.size() < kKept) {
    free_.push_back(memory);
  } else {
    ::munmap(memory, kSize);
  }
}

char* ReadBuffer::data() {
  if (!memory_) {
    memory_ = std::shared_ptr<char>(pool_->Take(),
                                    [pool = pool_](char* memory) { pool->Return(memory); });
  }
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
