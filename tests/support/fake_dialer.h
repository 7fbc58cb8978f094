// An AgentDialer that hands out FakeAgentLinks by address, and whose agents answer the privilege
// probe: which address answers, and how, a test decides. Loop thread only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/async/scheduler.h"
#include "lib/broker/agent_link.h"
#include "tests/support/fake_agent_link.h"

namespace sandbroker::testing {

class FakeDialer final : public broker::AgentDialer {
 public:
  explicit FakeDialer(Scheduler& scheduler) : scheduler_(scheduler) {}

  // What /proc/self/status says in sandboxes from now on.
  static std::string Unprivileged();
  std::string status_file = Unprivileged();
  // Probes are not answered.
  bool hold_probes = false;
  // Dials wait for AnswerDials, their bound or their cancellation.
  bool hold_dials = false;
  void AnswerDials();
  // These addresses refuse.
  std::map<std::string, absl::Status> refused;
  // The agent there; "boot-ADDRESS" unless set.
  std::map<std::string, std::string> boot_ids;

  // Addresses, in the order they were dialled.
  const std::vector<std::string>& dialed() const { return dialed_; }
  // The last link to an address; null when there was none.
  std::shared_ptr<FakeAgentLink> link(const std::string& address) const;
  // The link breaks by itself.
  void Lose(const std::string& address);
  size_t probes() const { return probes_; }

  void Dial(const broker::DialTarget& target, Duration bound,
            std::function<void(const absl::Status& why)> on_lost,
            std::function<void(absl::StatusOr<Dialed>)> done) override;

 private:
  struct Call {
    std::string address;
    std::string boot_id;
    std::function<void(const absl::Status&)> on_lost;
    std::function<void(absl::StatusOr<Dialed>)> done;
    std::unique_ptr<Timer> timer;
  };
  void Answer(Call& call);
  void Finish(Call& call, absl::StatusOr<Dialed> dialed);

  Scheduler& scheduler_;
  std::vector<std::string> dialed_;
  std::vector<std::shared_ptr<Call>> held_;
  std::map<std::string, std::shared_ptr<FakeAgentLink>> links_;
  std::map<std::string, std::function<void(const absl::Status&)>> on_lost_;
  size_t probes_ = 0;
};

}  // namespace sandbroker::testing
