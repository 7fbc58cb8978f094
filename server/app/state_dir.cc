#include "server/app/state_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "lib/base/crypto.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "server/app/files.h"

namespace sandbroker::app {
namespace {

// Raised when the layout below the directory changes in a way that older brokers would misread.
constexpr std::string_view kLayoutVersion = "1";
constexpr size_t kKeyBytes = 32;

absl::Status Refused(const std::string& path, std::string_view why) {
  return absl::FailedPreconditionError(StrCat("state directory ", path, ": ", why));
}

absl::StatusOr<UniqueFd> Lock(const std::string& path) {
  const std::string file = path + "/lock";
  UniqueFd lock(open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock.valid()) return Refused(path, StrCat("open lock: ", std::strerror(errno)));
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return Refused(path, StrCat("flock: ", std::strerror(errno)));
    const absl::StatusOr<std::string> pid = ReadSmallFile(file, 32);
    return Refused(
        path, StrCat("used by another broker, pid ", StripWhitespace(pid.ok() ? *pid : "unknown"),
                     "; stop it or choose another with --state-dir"));
  }
  // For the message above only: the lock itself is what counts.
  const std::string pid = StrCat(getpid(), "\n");
  if (ftruncate(lock.get(), 0) != 0 ||
      pwrite(lock.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return Refused(path, StrCat("write lock: ", std::strerror(errno)));
  }
  return lock;
}

absl::Status CheckVersion(const std::string& path) {
  const std::string file = path + "/version";
  const absl::StatusOr<std::string> found = ReadSmallFile(file, 64);
  if (absl::IsNotFound(found.status())) {
    return WriteFileAtomically(file, StrCat(kLayoutVersion, "\n"), 0600);
  }
  if (!found.ok()) return found.status();
  const std::string_view version = StripWhitespace(*found);
  if (version == kLayoutVersion) return absl::OkStatus();
  return Refused(path,
                 StrCat("has layout version '", version, "', this broker knows ", kLayoutVersion));
}

absl::StatusOr<std::string> ReadOrMakeKey(const std::string& path) {
  const std::string file = path + "/key";
  absl::StatusOr<std::string> key = ReadSmallFile(file, kKeyBytes);
  if (absl::IsNotFound(key.status())) {
    key = RandomBytes(kKeyBytes);
    SANDBROKER_RETURN_IF_ERROR(WriteFileAtomically(file, *key, 0600));
    return key;
  }
  if (!key.ok()) return key.status();
  struct stat info {};
  if (stat(file.c_str(), &info) != 0) return Refused(path, std::strerror(errno));
  if ((info.st_mode & 077) != 0) return Refused(path, "others may read key; chmod it to 0600");
  if (key->size() != kKeyBytes) {
    return Refused(path,
                   "key does not hold 32 bytes; remove it to have another made (handles "
                   "given out until now become unknown)");
  }
  return key;
}

}  // namespace

absl::Status MakeStateDir(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return Refused(path, StrCat(std::strerror(errno), "; choose another with --state-dir"));
  }
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return Refused(path, std::strerror(errno));
  if (!S_ISDIR(info.st_mode)) return Refused(path, "is not a directory");
  if (info.st_uid != geteuid()) return Refused(path, StrCat("belongs to uid ", info.st_uid));
  // Whoever may write here could plant a key of their own.
  if ((info.st_mode & 022) != 0) return Refused(path, "others may write to it; chmod it to 0700");
  return absl::OkStatus();
}

absl::StatusOr<StateDir> StateDir::Open(const std::string& path) {
  SANDBROKER_RETURN_IF_ERROR(MakeStateDir(path));
  absl::StatusOr<UniqueFd> lock = Lock(path);
  if (!lock.ok()) return lock.status();
  SANDBROKER_RETURN_IF_ERROR(CheckVersion(path));
  absl::StatusOr<std::string> key = ReadOrMakeKey(path);
  if (!key.ok()) return key.status();
  return StateDir(path, *std::move(lock), *std::move(key));
}

}  // namespace sandbroker::app
