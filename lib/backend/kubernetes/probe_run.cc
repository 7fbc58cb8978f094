#include "lib/backend/kubernetes/probe_run.h"

#include <string>
#include <utility>

#include "lib/base/ids.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "lib/broker/core/spec_hash.h"

namespace sandbroker::kubernetes {
namespace {

namespace agent = broker::agent;

constexpr uint64_t kWindow = 64 * 1024;
constexpr size_t kMaxOutput = 16 * 1024;

// Keeps itself alive until it has answered.
class ProbeRun final : public broker::AgentStreamHandler,
                       public std::enable_shared_from_this<ProbeRun> {
 public:
  ProbeRun(std::shared_ptr<broker::AgentLink> link,
           std::function<void(absl::StatusOr<ProbeFacts>)> done)
      : link_(std::move(link)), done_(std::move(done)) {}

  void Start(Scheduler& scheduler, Duration bound) {
    self_ = shared_from_this();
    timer_ = scheduler.After(
        bound, [this] { Finish(MakeError(Reason::kAgentUnreachable, "the probe took too long")); });
    agent::Open open;
    agent::Start& start = *open.mutable_start();
    start.set_execution_id(NewId());
    start.set_throwaway_id(true);
    start.set_boot_id(link_->info().boot_id);
    // The agent's own file, whatever the image holds.
    start.add_argv("/proc/self/exe");
    start.add_argv("--print-status");
    start.set_timeout_ns(bound.count());
    start.set_spec_hash(broker::SpecHash(start));
    start.mutable_reader()->set_holder("sandbroker.probe");
    start.mutable_reader()->set_attempt(1);
    stream_ = link_->Open(open, kWindow, this);
  }

  void OnEvent(const agent::Event&) override {}
  void OnData(uint64_t, int fd, SharedBytes data) override {
    const std::string_view view = data.view();
    if (fd == 1 && output_.size() + view.size() <= kMaxOutput) output_ += view;
    if (stream_) stream_->Consumed(view.size());
  }
  void OnInputRoom() override {}
  void OnEnd(const agent::Ended& ended) override {
    if (!ended.has_exited() || ended.exited().code() != 0) {
      return Finish(MakeError(Reason::kPrivilegedSandbox,
                              "this sandbox can't be shown to be safe: its agent does not say "
                              "what privileges programs have"));
    }
    Finish(JudgeProbe(output_));
  }
  void OnReset(const agent::Reset& reset) override {
    Finish(MakeError(Reason::kAgentUnreachable,
                     StrCat("the probe was refused: ", CEscape(reset.message()))));
  }
  void OnLinkLost(const absl::Status& why) override {
    Finish(MakeError(Reason::kAgentUnreachable,
                     StrCat("the link was lost before the probe: ", MessageOf(why))));
  }

 private:
  void Finish(absl::StatusOr<ProbeFacts> facts) {
    const auto self = std::exchange(self_, nullptr);
    if (!self) return;
    timer_.reset();
    const auto stream = std::exchange(stream_, nullptr);
    done_(std::move(facts));
  }

  const std::shared_ptr<broker::AgentLink> link_;
  const std::function<void(absl::StatusOr<ProbeFacts>)> done_;
  std::shared_ptr<ProbeRun> self_;
  std::unique_ptr<Timer> timer_;
  std::unique_ptr<broker::AgentStream> stream_;
  std::string output_;
};

}  // namespace

void RunProbe(Scheduler& scheduler, std::shared_ptr<broker::AgentLink> link, Duration bound,
              std::function<void(absl::StatusOr<ProbeFacts>)> done) {
  std::make_shared<ProbeRun>(std::move(link), std::move(done))->Start(scheduler, bound);
}

}  // namespace sandbroker::kubernetes
