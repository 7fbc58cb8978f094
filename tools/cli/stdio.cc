#include "tools/cli/stdio.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>

#include "lib/base/strings.h"

namespace sandbroker::cli {

void PrepareStdio(char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGTTIN, SIG_IGN);
  bool replaced = false;
  for (int fd = 0; fd <= 2; ++fd) {
    // What came through exec can't be close-on-exec: then it is a library's.
    const int flags = fcntl(fd, F_GETFD);
    if (flags >= 0 && (flags & FD_CLOEXEC) == 0) continue;
    const int null = open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);
    if (null < 0) continue;
    if (null != fd) {
      dup2(null, fd);
      close(null);
    }
    replaced = true;
  }
  if (replaced) execv("/proc/self/exe", argv);
}

WriteResult WriteAll(int fd, std::string_view data) {
  while (!data.empty()) {
    const ssize_t count = write(fd, data.data(), data.size());
    if (count >= 0) {
      data.remove_prefix(static_cast<size_t>(count));
    } else if (errno == EAGAIN) {
      pollfd wait{fd, POLLOUT, 0};
      poll(&wait, 1, -1);
    } else if (errno == EPIPE) {
      return WriteResult::kClosed;
    } else if (errno != EINTR) {
      return WriteResult::kFailed;
    }
  }
  return WriteResult::kDone;
}

std::string ErrorText(int error_number) { return std::generic_category().message(error_number); }

void Complain(std::string_view message) {
  WriteAll(STDERR_FILENO, StrCat("sandbroker: ", message, "\n"));
}

}  // namespace sandbroker::cli
