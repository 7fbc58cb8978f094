#include "lib/guest/agent.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "lib/base/ids.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"

namespace sandbroker::guest {
namespace {

using boost::system::error_code;

constexpr Duration kSweepInterval = std::chrono::seconds(15);
constexpr int kMaxReportedIds = 64;
constexpr Duration kEndAllBound = std::chrono::seconds(5);
// Output that a reader has fetched to its end is kept for second readers up to this much in all.
constexpr uint64_t kServedOutput = 8 * 1024 * 1024;

absl::Status Errno(const std::string& what) {
  return absl::InternalError(StrCat(what, ": ", std::strerror(errno)));
}

}  // namespace

Agent::Agent(boost::asio::io_context& io, AgentOptions options)
    : io_(io),
      options_(std::move(options)),
      shop_(io, NewId(), options_.output_budget),
      table_(shop_.boot_id, options_.executions),
      signals_(io),
      backstop_(io),
      sweep_(io),
      shutdown_(io) {}

Agent::~Agent() {
  links_.clear();
  KillEverything();
}

absl::Status Agent::Start(Credentials credentials) {
  // Programs share our uid: without this they could read our memory and environment.
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  ::signal(SIGPIPE, SIG_IGN);
  shop_.environment.AdoptFromProcess();
  shop_.launch.workspace = options_.workspace;
  shop_.launch.cgroup_procs_fd = options_.cgroup_procs_fd;
  shop_.launch.rlimits = TakeProgramLimits(options_.max_processes);
  shop_.oom.Use(options_.oom_events_fd);
  shop_.reaper.SpareExisting();
  // A broker that dies before it has said anything leaves no agent behind.
  if (options_.backstop_ms != 0) SetBackstop(std::chrono::milliseconds(options_.backstop_ms));
  SANDBROKER_RETURN_IF_ERROR(WatchSignals());
  return Listen(std::move(credentials));
}

absl::Status Agent::Listen(Credentials credentials) {
  auto listener = OpenListener(io_, options_, std::move(credentials));
  if (!listener.ok()) return listener.status();
  listener_ = *std::move(listener);
  listener_->Accept(
      [this](std::shared_ptr<LinkSocket> socket) { OnConnection(std::move(socket)); });
  return absl::OkStatus();
}

absl::Status Agent::WatchSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGCHLD, SIGTERM, SIGINT}) sigaddset(&set, number);
  if (::sigprocmask(SIG_BLOCK, &set, nullptr) != 0) return Errno("sigprocmask");
  const int fd = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd < 0) return Errno("signalfd");
  signals_.assign(fd);
  WaitForSignals();
  return absl::OkStatus();
}

int Agent::Run() {
  io_.run();
  return 0;
}

void Agent::OnConnection(std::shared_ptr<LinkSocket> socket) {
  const size_t proven =
      std::count_if(links_.begin(), links_.end(), [](const auto& link) { return link->proven(); });
  if (shutting_down_ || proven >= options_.max_links) return;
  if (links_.size() - proven >= options_.max_strangers && !MakeRoomForStranger()) return;
  auto link = std::make_shared<Link>(std::move(socket), this, options_.handshake_bound);
  links_.insert(link);
  link->Start();
}

// Where anybody can connect, a crowd must not keep the broker out for as long as it likes to wait:
// the oldest goes. A broker needs a few milliseconds of being among the newest.
bool Agent::MakeRoomForStranger() {
  if (!listener_->open_to_strangers()) return false;
  const auto oldest =
      std::min_element(links_.begin(), links_.end(), [](const auto& a, const auto& b) {
        return std::pair(a->proven(), a->since()) < std::pair(b->proven(), b->since());
      });
  const auto dropped = links_.extract(oldest);
  dropped.value()->Drop();
  return true;
}

void Agent::OnLinkClosed(Link* link) {
  // It is in the middle of telling us.
  boost::asio::post(io_, [this, kept = link->weak_from_this()] {
    if (const auto alive = kept.lock()) links_.erase(alive);
    if (shutting_down_ && links_.empty()) io_.stop();
  });
}

void Agent::WaitForSignals() {
  signals_.async_wait(Descriptor::wait_read, [this](error_code error) {
    if (error) return;
    OnSignals();
    WaitForSignals();
  });
}

void Agent::OnSignals() {
  signalfd_siginfo infos[8];
  const ssize_t n = ::read(signals_.native_handle(), infos, sizeof(infos));
  bool children = false;
  for (ssize_t i = 0; i * static_cast<ssize_t>(sizeof(infos[0])) < n; ++i) {
    if (infos[i].ssi_signo == SIGCHLD) {
      children = true;
    } else if (infos[i].ssi_code == SI_USER && infos[i].ssi_pid == 0) {
      // Programs in here can send us signals too. Theirs have a pid, which only sigqueue can forge,
      // and that one can't forge the code.
      Shutdown("the agent was told to end");
    }
  }
  if (children) shop_.reaper.OnChildren();
}

agent::v1::AgentHello Agent::Hello() const {
  agent::v1::AgentHello hello;
  hello.set_version_min(wire::kVersion);
  hello.set_version_max(wire::kVersion);
  hello.set_boot_id(shop_.boot_id);
  hello.set_agent_version(SANDBROKER_VERSION);
  agent::v1::Limits& limits = *hello.mutable_limits();
  limits.set_max_executions(static_cast<uint32_t>(options_.executions.max_executions));
  limits.set_output_budget_bytes(options_.output_budget);
  limits.set_max_data_bytes(ReadBuffer::kSize);
  limits.set_max_leftovers(static_cast<uint32_t>(options_.max_leftovers));
  limits.set_max_tombstones(static_cast<uint32_t>(options_.executions.max_tombstones));
  return hello;
}

agent::v1::Report Agent::MakeReport() const {
  agent::v1::Report report;
  uint32_t running = 0, attached = 0;
  for (const auto& [id, execution] : executions_) {
    if (execution->attached()) ++attached;
    if (execution->ended()) continue;
    if (++running <= kMaxReportedIds) report.add_running_ids(id);
  }
  report.set_running(running);
  report.set_leftovers(static_cast<uint32_t>(leftovers_.size()));
  for (const std::string& id : leftovers_) {
    if (report.leftover_ids_size() == kMaxReportedIds) break;
    report.add_leftover_ids(id);
  }
  report.set_attached(attached);
  const bool never = shop_.last_activity == Time::min();
  report.set_idle_ns(never ? -1 : (Now() - shop_.last_activity).count());
  return report;
}

void Agent::SetBackstop(Duration left) {
  backstop_.expires_after(left);
  backstop_.async_wait([this](error_code error) {
    // Moved while this was already on its way.
    if (error || backstop_.expiry() > std::chrono::steady_clock::now()) return;
    // Nobody renewed it: whoever owned this sandbox is gone.
    KillEverything();
    io_.stop();
  });
}

absl::StatusOr<LinkOwner::Opened> Agent::OpenExecution(const agent::v1::Open& open,
                                                       ExecutionStream* stream) {
  if (shutting_down_) return MakeError(Reason::kServerDraining, "the agent is ending");
  std::shared_ptr<Execution> execution;
  Execution::Roles roles;
  bool repeated = false;
  if (open.has_start()) {
    auto started = FindOrStart(open.start(), &repeated);
    if (!started.ok()) return started.status();
    execution = *std::move(started);
    if (open.start().has_reader()) roles.reader = &open.start().reader();
    if (open.start().has_writer()) roles.writer = &open.start().writer();
  } else if (open.has_attach()) {
    const auto& attach = open.attach();
    SANDBROKER_RETURN_IF_ERROR(table_.Find(attach.execution_id(), attach.boot_id(), Now()));
    execution = executions_.at(attach.execution_id());
    if (attach.has_reader()) roles.reader = &attach.reader();
    if (attach.has_writer()) roles.writer = &attach.writer();
  } else {
    return InvalidField("open", "is neither a start nor an attach");
  }
  auto greeting = execution->Attach(stream, roles);
  if (!greeting.ok()) return greeting.status();
  if (open.attach().has_cancel()) execution->OnCancel(open.attach().cancel());
  greeting->ready.set_repeated_start(repeated);
  return Opened{std::move(execution), *std::move(greeting)};
}

absl::StatusOr<std::shared_ptr<Execution>> Agent::FindOrStart(const agent::v1::Start& start,
                                                              bool* repeated) {
  SANDBROKER_RETURN_IF_ERROR(ValidateStart(start));
  const ExecutionTable::StartKey key{start.execution_id(), start.spec_hash(), start.boot_id()};
  // Not the one that is asked for.
  if (table_.full() && executions_.count(start.execution_id()) == 0) DropOne(Need::kUrgent);
  const auto admission = table_.Admit(key, Now());
  if (!admission.ok()) return admission.status();
  *repeated = *admission == ExecutionTable::Admission::kAttach;
  if (*repeated) return executions_.at(key.execution_id);
  return StartNew(key, start);
}

absl::StatusOr<std::shared_ptr<Execution>> Agent::StartNew(const ExecutionTable::StartKey& key,
                                                           const agent::v1::Start& start) {
  // Who has read output of it wants to go on, never to begin.
  if (start.reader().offset() != 0) {
    return MakeError(Reason::kOffsetBeyondEnd,
                     "the start names an offset, and no such execution is known");
  }
  if (leftovers_.size() >= options_.max_leftovers) {
    return MakeError(Reason::kCapacity,
                     StrCat(leftovers_.size(),
                            " ended executions have left processes behind; limit max_leftovers = ",
                            options_.max_leftovers));
  }
  const auto on_changed = [this](Execution& execution) { OnExecutionChanged(execution); };
  auto created = Execution::Create(&shop_, start, on_changed);
  while (!created.ok() && DropOne(Need::kUrgent))
    created = Execution::Create(&shop_, start, on_changed);
  if (!created.ok()) return created.status();
  table_.Add(key, !start.throwaway_id());
  executions_.emplace(key.execution_id, *created);
  (*created)->Launch(start);
  return created;
}

void Agent::OnExecutionChanged(Execution& execution) {
  if (!std::exchange(execution.told_ended, true)) {
    table_.OnEnded(execution.id(), Now());
    boost::asio::post(io_, [this] {
      DropForMemory();
      FinishShutdown();
    });
  }
  table_.SetDroppable(execution.id(), execution.droppable_from());
  if (execution.left_processes()) {
    leftovers_.insert(execution.id());
  } else {
    leftovers_.erase(execution.id());
  }
  NoteServed(execution);
  ArmSweep();
}

void Agent::NoteServed(Execution& execution) {
  if (execution.served_place != 0) {
    served_.erase(std::exchange(execution.served_place, 0));
    served_bytes_ -= execution.served_bytes;
  }
  if (!execution.served() || execution.attached() || execution.log_cost() == 0) return;
  execution.served_place = ++last_served_;
  execution.served_bytes = execution.log_cost();
  served_bytes_ += execution.served_bytes;
  served_.emplace(execution.served_place, execution.shared_from_this());
  if (served_bytes_ > kServedOutput) boost::asio::post(io_, [this] { DropServedOutput(); });
}

void Agent::DropServedOutput() {
  while (served_bytes_ > kServedOutput && !served_.empty()) {
    const std::shared_ptr<Execution> oldest = served_.begin()->second;
    oldest->DropOutput();
    NoteServed(*oldest);
  }
}

void Agent::Drop(const std::string& id) {
  table_.Drop(id, Now());
  const auto it = executions_.find(id);
  if (it->second->served_place != 0) {
    served_.erase(it->second->served_place);
    served_bytes_ -= it->second->served_bytes;
  }
  executions_.erase(it);
}

void Agent::ArmSweep() {
  if (std::exchange(sweep_armed_, true)) return;
  sweep_.expires_after(kSweepInterval);
  sweep_.async_wait([this](error_code error) {
    sweep_armed_ = false;
    if (!error) DropExpired();
  });
}

// A start that would be refused outweighs an end that might have to be delivered again.
bool Agent::DropOne(Need need) {
  const Duration ahead = need == Need::kUrgent ? Execution::kRedelivery : Duration(0);
  const auto victim = table_.Victim(Now() + ahead);
  if (!victim) return DropLeftoverOutput(Now() + ahead);
  Drop(*victim);
  return true;
}

// Those with processes must stay known, but not with all that they printed.
bool Agent::DropLeftoverOutput(Time now) {
  for (const std::string& id : leftovers_) {
    Execution& execution = *executions_.at(id);
    if (execution.log_cost() == 0 || execution.output_droppable_from() > now) continue;
    execution.DropOutput();
    NoteServed(execution);
    return true;
  }
  return false;
}

// Ended executions get at most half of the memory, so that running ones have the other half.
void Agent::DropForMemory() {
  while (shop_.budget.available() < shop_.budget.total() / 2 && DropOne(Need::kSpace)) {
  }
}

void Agent::DropExpired() {
  for (const std::string& id : table_.Expired(Now())) Drop(id);
  if (table_.ended() != 0) ArmSweep();
}

void Agent::Shutdown(const std::string& why) {
  if (std::exchange(shutting_down_, true)) return;
  listener_->Close();
  std::vector<std::shared_ptr<Execution>> all;
  for (const auto& [id, execution] : executions_) all.push_back(execution);
  for (const auto& execution : all) execution->Terminate(options_.shutdown_grace);
  shutdown_.expires_after(options_.shutdown_grace + options_.shutdown_grace / 4);
  shutdown_.async_wait([this, why](error_code) {
    killing_ = true;
    KillEverything();
    const auto links = links_;
    for (const auto& link : links) link->Refuse(MakeError(Reason::kSandboxGone, why));
    shutdown_.expires_after(std::chrono::seconds(1));
    shutdown_.async_wait([this](error_code) { io_.stop(); });
    if (links.empty()) io_.stop();
  });
  FinishShutdown();
}

// The grace is for what runs, not for waiting.
void Agent::FinishShutdown() {
  if (!shutting_down_ || killing_) return;
  const auto ended = [](const auto& entry) { return entry.second->ended(); };
  if (std::all_of(executions_.begin(), executions_.end(), ended)) shutdown_.cancel();
}

void Agent::KillEverything() {
  std::vector<std::shared_ptr<Execution>> all;
  for (const auto& [id, execution] : executions_) all.push_back(execution);
  for (const auto& execution : all) execution->Terminate(Duration::zero());
  if (::getpid() == 1) {
    // In a pid namespace of our own everything else is ours, and ends with us for certain.
    ::kill(-1, SIGKILL);
  } else {
    shop_.reaper.EndAll(kEndAllBound);
  }
}

}  // namespace sandbroker::guest
