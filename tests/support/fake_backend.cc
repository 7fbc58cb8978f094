#include "tests/support/fake_backend.h"

#include <utility>

#include "lib/base/status.h"
#include "lib/base/strings.h"

namespace sandbroker::testing {

broker::Binding FakeBackend::Make() {
  const std::string uid = StrCat("uid-", ++made_);
  auto link = std::make_shared<FakeAgentLink>(StrCat("boot-", made_));
  if (on_link) on_link(*link);
  links_[uid] = link;
  return {uid, link, broker::Source::kWarm, Duration(0), Duration(0)};
}

Task<absl::StatusOr<broker::Binding>> FakeBackend::Acquire(const broker::AcquireSpec& spec,
                                                           CancelToken cancel) {
  if (spec.pool != "default") {
    co_return MakeError(Reason::kPoolNotFound, StrCat("no pool '", spec.pool, "'"));
  }
  if (draining_) co_return MakeError(Reason::kServerDraining, "draining");
  if (acquire_error) co_return *acquire_error;
  if (hold_acquires) {
    OneShot<absl::Status> turn;
    waiting_.push_back(turn);
    cancel.OnCancel([turn] { turn.Set(MakeError(Reason::kCancelled, "the caller went away")); });
    const absl::Status status = co_await turn.Wait();
    cancel.OnCancel(nullptr);
    if (!status.ok()) co_return status;
  }
  co_return Make();
}

bool FakeBackend::Grant() {
  while (!waiting_.empty()) {
    const OneShot<absl::Status> turn = waiting_.front();
    waiting_.erase(waiting_.begin());
    if (turn.done()) continue;
    turn.Set(absl::OkStatus());
    return true;
  }
  return false;
}

size_t FakeBackend::waiting() const {
  size_t count = 0;
  for (const auto& turn : waiting_) count += turn.done() ? 0 : 1;
  return count;
}

Task<absl::Status> FakeBackend::Release(const std::string& uid) {
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
  const std::string id = uid;  // the caller's may die while this waits
  if (release_error) co_return *release_error;
  if (hold_releases) {
    OneShot<absl::Status> turn;
    releasing_.push_back(turn);
    const absl::Status status = co_await turn.Wait();
    if (!status.ok()) co_return status;
  }
  if (links_.erase(id) > 0) ++released_;
  co_return absl::OkStatus();
}

Task<absl::StatusOr<bool>> FakeBackend::ReleaseUnchanged(std::string uid, broker::Claim as_read) {
  if (const auto* kept = claim(uid); kept != nullptr && !broker::SamePromise(*kept, as_read)) {
    co_return false;
  }
  const absl::Status status = co_await Release(uid);
  if (!status.ok()) co_return status;
  co_return true;
}

Task<absl::Status> FakeBackend::Seek(std::string, std::string uid) {
  if (hold_seeks) {
    OneShot<bool> turn;
    seeking_.push_back(turn);
    co_await turn.Wait();
  }
  if (on_seek) on_seek(uid);
  co_return absl::OkStatus();
}

void FakeBackend::FinishSeeks() {
  for (const auto& turn : std::exchange(seeking_, {})) turn.Set(true);
}

Task<absl::Status> FakeBackend::SeekReceipt(std::string) { co_return absl::OkStatus(); }

Task<absl::StatusOr<broker::Claim>> FakeBackend::Reread(std::string uid) {
  const broker::Claim* kept = claim(uid);
  if (kept == nullptr || links_.count(uid) == 0) co_return MakeError(Reason::kSandboxGone, "gone");
  co_return *kept;
}

Task<absl::Status> FakeBackend::Remember(std::string uid, broker::Claim claim,
                                         std::optional<broker::Claim>) {
  if (hold_remembering) {
    OneShot<bool> turn;
    remembering_.push_back(turn);
    co_await turn.Wait();
  }
  if (remember_error) co_return *remember_error;
  if (links_.count(uid) == 0) co_return MakeError(Reason::kSandboxGone, "gone");
  claims_[uid] = std::move(claim);
  ++remembered_;
  co_return absl::OkStatus();
}

void FakeBackend::FinishRemembering() {
  for (const auto& turn : std::exchange(remembering_, {})) turn.Set(true);
}

const broker::Claim* FakeBackend::claim(const std::string& uid) const {
  const auto it = claims_.find(uid);
  return it == claims_.end() ? nullptr : &it->second;
}

std::shared_ptr<FakeAgentLink> FakeBackend::Adopt(const std::string& uid, broker::Claim claim) {
  auto link = std::make_shared<FakeAgentLink>(StrCat("boot-", uid));
  links_[uid] = link;
  claims_[uid] = claim;
  observer_->OnAdopted({uid, "default", std::move(claim), link});
  return link;
}

void FakeBackend::FinishReleases() {
  hold_releases = false;
  for (const auto& turn : std::exchange(releasing_, {})) turn.Set(absl::OkStatus());
}

std::shared_ptr<FakeAgentLink> FakeBackend::link(const std::string& uid) const {
  const auto it = links_.find(uid);
  return it == links_.end() ? nullptr : it->second;
}

std::shared_ptr<FakeAgentLink> FakeBackend::only_link() const {
  return links_.size() == 1 ? links_.begin()->second : nullptr;
}

void FakeBackend::Kill(const std::string& uid, const std::string& cause) {
  links_.erase(uid);
  if (observer_ != nullptr) observer_->OnSandboxGone(uid, cause);
}

std::vector<broker::PoolCapacity> FakeBackend::Capacity() const {
  broker::PoolCapacity pool;
  pool.pool = "default";
  pool.wanted = 2;
  pool.ready = 2;
  pool.claimed = static_cast<uint32_t>(links_.size());
  pool.waiting_callers = static_cast<uint32_t>(waiting());
  pool.limit = 64;
  return {pool};
}

void FakeBackend::Drain() {
  draining_ = true;
  for (const auto& turn : std::exchange(waiting_, {})) {
    turn.Set(MakeError(Reason::kServerDraining, "draining"));
  }
}

Task<absl::StatusOr<bool>> MemoryReceipts::Create(std::string key, broker::Receipt receipt) {
  bool skip = false;
  const absl::Status status = Judge(receipt, &skip);
  const bool made = !skip && receipts_.emplace(std::move(key), std::move(receipt)).second;
  if (!status.ok()) co_return status;
  co_return made;
}

absl::Status MemoryReceipts::Judge(const broker::Receipt& receipt, bool* skip) {
  if (!on_write) return absl::OkStatus();
  const absl::Status status = on_write(receipt);
  *skip = !status.ok() && !lands;
  return status;
}

Task<absl::StatusOr<std::optional<broker::Receipt>>> MemoryReceipts::Read(std::string key) {
  if (read_error) co_return *read_error;
  const auto it = receipts_.find(key);
  if (it == receipts_.end()) co_return std::nullopt;
  co_return it->second;
}

Task<absl::StatusOr<bool>> MemoryReceipts::CompareAndSet(std::string key,
                                                         std::string expected_token,
                                                         broker::Receipt receipt) {
  bool skip = false;
  const absl::Status status = Judge(receipt, &skip);
  const auto it = receipts_.find(key);
  const bool made = !skip && it != receipts_.end() && it->second.token == expected_token;
  if (made) it->second = std::move(receipt);
  if (!status.ok()) co_return status;
  co_return made;
}

Task<absl::StatusOr<std::vector<std::string>>> MemoryReceipts::List() {
  std::vector<std::string> keys;
  for (const auto& [key, receipt] : receipts_) keys.push_back(key);
  co_return keys;
}

Task<absl::StatusOr<bool>> MemoryReceipts::Remove(std::string key, std::string expected_token) {
  const auto it = receipts_.find(key);
  if (it == receipts_.end() || it->second.token != expected_token) co_return false;
  receipts_.erase(it);
  co_return true;
}

}  // namespace sandbroker::testing
