#include "tools/cli/stdin_pump.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "lib/base/check.h"
#include "lib/base/strings.h"
#include "tools/cli/stdio.h"

namespace sandbroker::cli {
namespace {

constexpr size_t kChunkBytes = 256 * 1024;

}  // namespace

void StdinPump::Start() {
  stop_.Reset(eventfd(0, EFD_CLOEXEC));
  SANDBROKER_CHECK(stop_.valid());
  thread_ = std::thread([this] { Loop(); });
}

void StdinPump::Stop() {
  if (!thread_.joinable()) return;
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void StdinPump::Loop() {
  std::string buffer(kChunkBytes, '\0');
  pollfd fds[] = {{STDIN_FILENO, POLLIN, 0}, {stop_.get(), POLLIN, 0}};
  while (true) {
    if (poll(fds, 2, -1) < 0) continue;
    if (fds[1].revents != 0) return;
    const ssize_t count = read(STDIN_FILENO, buffer.data(), buffer.size());
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count > 0) {
      // Refused: the program takes no more, which its end or its own words will explain.
      const std::string_view data(buffer.data(), static_cast<size_t>(count));
      if (!execution_.WriteStdin(data).ok()) return;
      continue;
    }
    // EIO is the terminal of a background job: there is no input for us.
    if (count < 0 && errno != EIO) Complain(StrCat("stdin: ", ErrorText(errno)));
    (void)execution_.CloseStdin();
    return;
  }
}

}  // namespace sandbroker::cli
