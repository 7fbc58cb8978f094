#include "server/app/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "lib/base/fd.h"
#include "lib/base/strings.h"

namespace sandbroker::app {
namespace {

absl::Status Failed(std::string_view what, const std::string& path) {
  const int error = errno;
  const std::string text = StrCat(what, " ", path, ": ", std::strerror(error));
  return error == ENOENT ? absl::NotFoundError(text) : absl::FailedPreconditionError(text);
}

bool WriteAll(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    content.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace

absl::Status WriteFileAtomically(const std::string& path, std::string_view content, mode_t mode) {
  const std::string temporary = StrCat(path, ".tmp.", getpid());
  unlink(temporary.c_str());
  {
    const UniqueFd fd(
        open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
    if (!fd.valid()) return Failed("create", temporary);
    if (fchmod(fd.get(), mode) != 0 || !WriteAll(fd.get(), content) || fsync(fd.get()) != 0) {
      const absl::Status failed = Failed("write", temporary);
      unlink(temporary.c_str());
      return failed;
    }
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    const absl::Status failed = Failed("rename to", path);
    unlink(temporary.c_str());
    return failed;
  }
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const UniqueFd directory(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid() || fsync(directory.get()) != 0) return Failed("sync", folder);
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadSmallFile(const std::string& path, size_t limit) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.valid()) return Failed("open", path);
  std::string content(limit + 1, '\0');
  size_t size = 0;
  while (size < content.size()) {
    const ssize_t got = read(fd.get(), content.data() + size, content.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Failed("read", path);
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  if (size > limit) {
    return absl::FailedPreconditionError(StrCat(path, ": larger than ", limit, " bytes"));
  }
  content.resize(size);
  return content;
}

}  // namespace sandbroker::app
