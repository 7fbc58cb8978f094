// One local sandbox from start to gone. States: starting -> ready -> (linkless -> ready) -> ending
// -> gone. One that an earlier broker launched starts with its agent known. It watches bubblewrap
// and the agent through pidfds, dials the agent, dials again when the link drops, and ends
// everything inside by ending the agent, which is the first process of the sandbox's pid namespace.
// Loop thread only; kept alive by its pending operations.
#pragma once

#include <array>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/async/cancel.h"
#include "lib/async/loop.h"
#include "lib/backend/local/launcher.h"
#include "lib/backend/local/processes.h"
#include "lib/backend/local/settings.h"
#include "lib/broker/agent_link.h"

namespace sandbroker::local {

class LocalSandbox : public std::enable_shared_from_this<LocalSandbox> {
 public:
  // All on the loop thread. Gone is the last, and comes exactly once.
  struct Callbacks {
    std::function<void()> ready;
    std::function<void(const absl::Status& why)> link_lost;
    std::function<void()> link_restored;
    std::function<void(const std::string& cause)> gone;
  };
  LocalSandbox(Loop& loop, broker::AgentDialer& dialer, const LocalSettings& settings,
               std::string uid, Launched launched, Callbacks callbacks);
  ~LocalSandbox();

  // Watches and dials. Once.
  void Start();
  // Ends it; Callbacks::gone follows. Idempotent; the first cause counts.
  void Kill(const std::string& cause);
  // Tells its programs to end, and ends it once they have, at the latest after `grace`.
  void Stop(const std::string& cause, Duration grace);
  // Lets go of it as it is, for another broker to find. No callback after it.
  void Abandon();

  const std::string& uid() const { return uid_; }
  // nullptr while there is none.
  const std::shared_ptr<broker::AgentLink>& link() const { return link_; }
  bool gone() const { return state_ == State::kGone; }
  // Once ready: its first process on this host, and the incarnation.
  const ProcessName& agent() const { return agent_name_; }
  const std::string& boot_id() const { return boot_id_; }
  // The last words of bubblewrap or the agent, for a start that failed.
  const std::string& complaint() const { return complaint_; }

 private:
  enum class State { kStarting, kReady, kLinkless, kEnding, kGone };
  using Descriptor = boost::asio::posix::stream_descriptor;

  void Dial(Duration bound);
  void OnDialed(absl::StatusOr<broker::AgentDialer::Dialed> dialed);
  void OnLost(const absl::Status& why);
  void ReadComplaints();
  void WatchMonitor();
  // False: it has ended, and Kill was called.
  bool FindAgent(broker::AgentDialer::Dialed* dialed);
  void WatchAgent(UniqueFd pidfd);
  void OnAgentExit();
  void OnMonitorExit();
  void KillAgent();
  // Of the sandbox's first process on this host; 0 while bubblewrap has not said.
  pid_t ChildPid();
  void KillMonitor();
  void BecomeGone();
  void LetGo(const absl::Status& why);

  Loop& loop_;
  broker::AgentDialer& dialer_;
  const LocalSettings& settings_;
  const std::string uid_;
  Launched launched_;
  Callbacks callbacks_;
  State state_ = State::kStarting;
  std::string cause_;
  std::string boot_id_;
  std::shared_ptr<broker::AgentLink> link_;
  CancelSource dial_;
  Time up_since_ = kNever;    // the present link
  Time down_since_ = kNever;  // the first loss since a link that lasted; kNever = none
  Descriptor monitor_;        // readable once bubblewrap has ended
  Descriptor agent_;          // readable once the agent has ended
  Descriptor errors_;
  std::string complaint_;
  std::array<char, 1024> part_;
  pid_t child_pid_ = 0;
  ProcessName agent_name_;
  int kill_tries_ = 0;
  Duration relink_pause_{0};
  std::unique_ptr<Timer> relink_timer_;  // dials again
  std::unique_ptr<Timer> kill_timer_;    // tries again while bubblewrap is still setting up
};

}  // namespace sandbroker::local
