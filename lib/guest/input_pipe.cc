#include "lib/guest/input_pipe.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace sandbroker::guest {
namespace {

using boost::system::error_code;

// From here on it is a bulk copy, which a larger pipe makes cheaper.
constexpr uint64_t kBulk = 1024 * 1024;
constexpr int kBulkPipe = 1024 * 1024;

}  // namespace

InputPipe::InputPipe(boost::asio::io_context& io, UniqueFd fd, Events events)
    : descriptor_(io, fd.Release()), events_(std::move(events)) {}

void InputPipe::Start() { WaitForReaderGone(); }

void InputPipe::WaitForReaderGone() {
  descriptor_.async_wait(Descriptor::wait_error, [self = shared_from_this()](error_code error) {
    if (!error) self->OnGone();
  });
}

ssize_t InputPipe::WriteNow(std::string_view bytes) {
  while (true) {
    const ssize_t n = ::write(descriptor_.native_handle(), bytes.data(), bytes.size());
    if (n >= 0) {
      if (written_ < kBulk && written_ + n >= kBulk) {
        ::fcntl(descriptor_.native_handle(), F_SETPIPE_SZ, kBulkPipe);
      }
      written_ += static_cast<uint64_t>(n);
      return n;
    }
    if (errno == EAGAIN) return 0;
    if (errno != EINTR) return -1;
  }
}

void InputPipe::Write(std::string_view bytes) {
  if (!descriptor_.is_open() || bytes.empty()) return;
  if (waiting_.empty()) {
    const ssize_t taken = WriteNow(bytes);
    if (taken < 0) return OnGone();
    bytes.remove_prefix(static_cast<size_t>(taken));
    if (bytes.empty()) return events_.on_room();
  }
  waiting_.push_back(SharedBytes::Copy(bytes));
  waiting_bytes_ += bytes.size();
  WaitWritable();
}

void InputPipe::Finish() {
  finish_ = true;
  if (waiting_.empty()) CloseFd();
}

void InputPipe::WaitWritable() {
  if (std::exchange(waiting_writable_, true)) return;
  descriptor_.async_wait(Descriptor::wait_write, [self = shared_from_this()](error_code error) {
    self->waiting_writable_ = false;
    if (!error) self->Drain();
  });
}

void InputPipe::Drain() {
  while (!waiting_.empty() && descriptor_.is_open()) {
    SharedBytes& front = waiting_.front();
    const ssize_t taken = WriteNow(front.view());
    if (taken < 0) return OnGone();
    if (taken == 0) {
      WaitWritable();
      break;
    }
    waiting_bytes_ -= static_cast<uint64_t>(taken);
    if (static_cast<size_t>(taken) == front.size()) {
      waiting_.pop_front();
    } else {
      front = front.Slice(taken, front.size() - taken);
    }
  }
  if (waiting_.empty() && finish_) CloseFd();
  if (events_.on_room) events_.on_room();
}

void InputPipe::OnGone() {
  if (!descriptor_.is_open()) return;
  const auto on_closed = std::move(events_.on_closed);
  Close();
  if (on_closed) on_closed();
}

void InputPipe::CloseFd() {
  error_code ignored;
  descriptor_.close(ignored);
}

void InputPipe::Close() {
  events_ = {};
  waiting_.clear();
  waiting_bytes_ = 0;
  CloseFd();
}

}  // namespace sandbroker::guest
