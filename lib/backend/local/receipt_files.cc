#include "lib/backend/local/receipt_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "lib/base/fail_point.h"
#include "lib/base/fd.h"
#include "lib/base/ids.h"
#include "lib/base/strings.h"

namespace sandbroker::local {
namespace {

absl::Status Failed(std::string_view what, const std::string& path) {
  return absl::InternalError(StrCat("receipt: ", what, " ", path, ": ", std::strerror(errno)));
}

// StatusOr of a StatusOr, from the pool and from the work, becomes one.
template <class T>
absl::StatusOr<T> Flat(absl::StatusOr<absl::StatusOr<T>> nested) {
  if (!nested.ok()) return nested.status();
  return *std::move(nested);
}

}  // namespace

std::string ReceiptFiles::PathOf(const std::string& key) const {
  return StrCat(directory_, "/", key);
}

absl::Status ReceiptFiles::MakeDirectory() {
  if (mkdir(directory_.c_str(), 0700) != 0 && errno != EEXIST) return Failed("mkdir", directory_);
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReceiptFiles::WriteTemporary(const std::string& key,
                                                         const std::string& text) {
  const std::string path = StrCat(directory_, "/.", key, ".", NewId());
  UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.valid()) return Failed("create", path);
  const bool written =
      write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      fsync(file.get()) == 0;
  if (written) return path;
  const absl::Status status = Failed("write", path);
  unlink(path.c_str());
  return status;
}

absl::Status ReceiptFiles::SyncDirectory() {
  UniqueFd directory(open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid() || fsync(directory.get()) != 0) return Failed("fsync", directory_);
  return absl::OkStatus();
}

absl::StatusOr<bool> ReceiptFiles::Create(const std::string& key, const broker::Receipt& receipt) {
  const std::lock_guard lock(mutex_);
  const auto temporary = WriteTemporary(key, broker::FormatReceipt(receipt));
  if (!temporary.ok()) return temporary.status();
  SANDBROKER_FAIL_POINT("receipt.temporary");
  const bool created = link(temporary->c_str(), PathOf(key).c_str()) == 0;
  const int error = errno;
  unlink(temporary->c_str());
  if (!created) {
    errno = error;
    if (error == EEXIST) return false;
    return Failed("link", PathOf(key));
  }
  if (absl::Status status = SyncDirectory(); !status.ok()) return status;
  return true;
}

absl::StatusOr<std::optional<broker::Receipt>> ReceiptFiles::Read(const std::string& key) {
  UniqueFd file(open(PathOf(key).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) {
    if (errno == ENOENT) return std::optional<broker::Receipt>();
    return Failed("open", PathOf(key));
  }
  char text[4096];
  const ssize_t got = read(file.get(), text, sizeof(text));
  if (got < 0) return Failed("read", PathOf(key));
  auto receipt = broker::ParseReceipt({text, static_cast<size_t>(got)});
  if (!receipt.ok()) return receipt.status();
  return std::optional<broker::Receipt>(*std::move(receipt));
}

absl::StatusOr<bool> ReceiptFiles::CompareAndSet(const std::string& key,
                                                 const std::string& expected_token,
                                                 const broker::Receipt& receipt) {
  const std::lock_guard lock(mutex_);
  const auto now = Read(key);
  if (!now.ok()) return now.status();
  if (!*now || (*now)->token != expected_token) return false;
  const auto temporary = WriteTemporary(key, broker::FormatReceipt(receipt));
  if (!temporary.ok()) return temporary.status();
  if (rename(temporary->c_str(), PathOf(key).c_str()) != 0) {
    const absl::Status status = Failed("rename", PathOf(key));
    unlink(temporary->c_str());
    return status;
  }
  if (absl::Status status = SyncDirectory(); !status.ok()) return status;
  return true;
}

absl::StatusOr<std::vector<std::string>> ReceiptFiles::List() {
  const std::lock_guard lock(mutex_);  // no temporary is in use
  std::vector<std::string> keys;
  std::error_code error;
  for (std::filesystem::directory_iterator at(directory_, error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with('.')) {
      unlink(at->path().c_str());
    } else {
      keys.push_back(name);
    }
  }
  if (error)
    return absl::InternalError(StrCat("receipt: list ", directory_, ": ", error.message()));
  return keys;
}

absl::StatusOr<bool> ReceiptFiles::Remove(const std::string& key,
                                          const std::string& expected_token) {
  const std::lock_guard lock(mutex_);
  const auto now = Read(key);
  if (!now.ok()) return now.status();
  if (!*now || (*now)->token != expected_token) return false;
  if (unlink(PathOf(key).c_str()) != 0) return Failed("unlink", PathOf(key));
  if (absl::Status status = SyncDirectory(); !status.ok()) return status;
  return true;
}

Task<absl::StatusOr<std::vector<std::string>>> FileReceiptStore::List() {
  const auto work = [this] { return files_.List(); };
  auto done = co_await blocking_.Run(work);
  co_return Flat(std::move(done));
}

Task<absl::StatusOr<bool>> FileReceiptStore::Remove(std::string key, std::string expected_token) {
  const auto work = [this, key, expected_token] { return files_.Remove(key, expected_token); };
  auto done = co_await blocking_.Run(work);
  co_return Flat(std::move(done));
}

Task<absl::StatusOr<bool>> FileReceiptStore::Create(std::string key, broker::Receipt receipt) {
  const auto work = [this, key, receipt] { return files_.Create(key, receipt); };
  auto done = co_await blocking_.Run(work);
  co_return Flat(std::move(done));
}

Task<absl::StatusOr<std::optional<broker::Receipt>>> FileReceiptStore::Read(std::string key) {
  const auto work = [this, key] { return files_.Read(key); };
  auto done = co_await blocking_.Run(work);
  co_return Flat(std::move(done));
}

Task<absl::StatusOr<bool>> FileReceiptStore::CompareAndSet(std::string key,
                                                           std::string expected_token,
                                                           broker::Receipt receipt) {
  const auto work = [this, key, expected_token, receipt] {
    return files_.CompareAndSet(key, expected_token, receipt);
  };
  auto done = co_await blocking_.Run(work);
  co_return Flat(std::move(done));
}

}  // namespace sandbroker::local
