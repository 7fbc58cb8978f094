#include "lib/backend/local/record_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "lib/backend/local/sandbox_record.h"
#include "lib/base/fail_point.h"
#include "lib/base/fd.h"
#include "lib/base/strings.h"

namespace sandbroker::local {
namespace {

constexpr char kName[] = "/state.json";
constexpr char kTemporary[] = "/.state.json";

absl::Status Failed(std::string_view what, const std::string& path) {
  const int error = errno;
  const std::string text = StrCat("state file: ", what, " ", path, ": ", std::strerror(error));
  return error == ENOENT ? absl::NotFoundError(text) : absl::InternalError(text);
}

}  // namespace

absl::Status RecordFiles::MakeDirectory() {
  if (mkdir(directory_.c_str(), 0700) != 0 && errno != EEXIST) return Failed("mkdir", directory_);
  return absl::OkStatus();
}

std::string SandboxesIn(const std::string& state_dir) { return StrCat(state_dir, "/sandboxes"); }

std::string RecordFiles::FolderOf(const std::string& uid) const {
  return StrCat(directory_, "/", uid);
}

absl::Status RecordFiles::Write(const std::string& uid, std::string_view text) {
  const std::string folder = FolderOf(uid);
  const std::string temporary = folder + kTemporary;
  {
    const UniqueFd file(
        open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file.valid()) return Failed("create", temporary);
    // With its blocks allocated a rename over the old file does not make ext4 write them out at
    // once. A file system that can't does without.
    posix_fallocate(file.get(), 0, static_cast<off_t>(text.size()));
    if (write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
      return Failed("write", temporary);
    }
  }
  SANDBROKER_FAIL_POINT("record.temporary");
  const std::string path = folder + kName;
  if (std::rename(temporary.c_str(), path.c_str()) != 0) return Failed("rename", path);
  return absl::OkStatus();
}

absl::StatusOr<std::string> RecordFiles::Read(const std::string& uid) {
  const std::string path = FolderOf(uid) + kName;
  // Whatever lies there must not make the broker wait.
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file.valid()) return Failed("open", path);
  std::string text;
  char part[16 * 1024];
  ssize_t got = 0;
  while (text.size() <= kMaxRecordBytes && (got = read(file.get(), part, sizeof(part))) > 0) {
    text.append(part, static_cast<size_t>(got));
  }
  if (got < 0) return Failed("read", path);
  return text;
}

void RecordFiles::Remove(const std::string& uid) {
  std::error_code ignored;
  std::filesystem::remove_all(FolderOf(uid), ignored);
}

std::vector<std::string> RecordFiles::List() {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator at(directory_, error), end; !error && at != end;
       at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  return names;
}

}  // namespace sandbroker::local
