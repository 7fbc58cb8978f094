#include "lib/link/native_dialer.h"

#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "lib/base/status.h"
#include "lib/base/strings.h"

namespace sandbroker::link {
namespace {

using boost::system::error_code;
using std::chrono::milliseconds;

int PeerPid(NativeLink::Socket& socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return 0;
  return peer.pid;
}

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

UniqueFd PeerPidfd(NativeLink::Socket& socket) {
  int pidfd = -1;
  socklen_t size = sizeof(pidfd);
  if (getsockopt(socket.native_handle(), SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) != 0) pidfd = -1;
  return UniqueFd(pidfd);
}

// One dial: connect (again and again while refused) -> upgrade -> proof, all within one bound.
class Attempt : public std::enable_shared_from_this<Attempt> {
 public:
  Attempt(Loop& loop, LinkSettings settings, std::shared_ptr<ChunkPool> chunks,
          broker::DialTarget target, std::function<void(const absl::Status&)> on_lost,
          std::function<void(absl::StatusOr<broker::AgentDialer::Dialed>)> done)
      : loop_(loop),
        settings_(settings),
        chunks_(std::move(chunks)),
        target_(std::move(target)),
        on_lost_(std::move(on_lost)),
        done_(std::move(done)),
        socket_(loop.context()) {}

  void Start(Duration bound) {
    bound_timer_ = loop_.After(bound, [self = shared_from_this()] {
      self->Finish(MakeError(Reason::kAgentUnreachable,
                             StrCat("the agent did not answer in time", self->last_error_)));
    });
    target_.cancel.OnCancel([weak = weak_from_this()] {
      const auto self = weak.lock();
      if (self) self->Finish(MakeError(Reason::kCancelled, "the sandbox is not wanted any more"));
    });
    Connect();
  }

 private:
  void Connect() {
    if (!done_) return;
    socket_ = NativeLink::Socket(loop_.context());
    socket_.async_connect(
        boost::asio::local::stream_protocol::endpoint(target_.unix_path),
        [self = shared_from_this()](const error_code& error) { self->OnConnected(error); });
  }

  void OnConnected(const error_code& error) {
    if (!done_) return;
    if (!error) return Upgrade();
    last_error_ = StrCat(" (connect: ", error.message(), ")");
    TryAgain();
  }

  void Upgrade() {
    peer_pid_ = PeerPid(socket_);
    peer_pidfd_ = PeerPidfd(socket_);
    link_ = std::make_shared<NativeLink>(loop_, settings_, chunks_, target_, std::move(socket_));
    link_->Start(on_lost_, [self = shared_from_this()](const absl::Status& status) {
      if (!status.ok()) return self->OnRefused(status);
      self->Finish(
          broker::AgentDialer::Dialed{self->link_, self->peer_pid_, std::move(self->peer_pidfd_)});
    });
  }

  // A connection that broke before the proof is like one that was refused.
  void OnRefused(const absl::Status& status) {
    if (!done_) return;
    if (DetailOf(status).metadata.count("connection") == 0) return Finish(status);
    last_error_ = StrCat(" (", MessageOf(status), ")");
    link_.reset();
    TryAgain();
  }

  void TryAgain() {
    delay_ = std::min<Duration>(delay_ * 3 / 2, milliseconds(20));
    retry_timer_ = loop_.After(delay_, [self = shared_from_this()] { self->Connect(); });
  }

  void Finish(absl::StatusOr<broker::AgentDialer::Dialed> result) {
    if (!done_) return;
    const auto self = shared_from_this();
    const auto done = std::exchange(done_, nullptr);
    const auto bound = std::move(bound_timer_);
    retry_timer_.reset();
    if (!result.ok() && link_) link_->Close(result.status());
    done(std::move(result));
    link_.reset();
  }

  Loop& loop_;
  const LinkSettings settings_;
  const std::shared_ptr<ChunkPool> chunks_;
  const broker::DialTarget target_;
  std::function<void(const absl::Status&)> on_lost_;
  std::function<void(absl::StatusOr<broker::AgentDialer::Dialed>)> done_;
  NativeLink::Socket socket_;
  std::shared_ptr<NativeLink> link_;
  int peer_pid_ = 0;
  UniqueFd peer_pidfd_;
  std::string last_error_;
  Duration delay_ = std::chrono::microseconds(500);
  std::unique_ptr<Timer> bound_timer_;
  std::unique_ptr<Timer> retry_timer_;
};

}  // namespace

NativeDialer::NativeDialer(Loop& loop, LinkSettings settings)
    : loop_(loop),
      settings_(settings),
      chunks_(std::make_shared<ChunkPool>(wire::kMaxData + 64, 32)) {}

void NativeDialer::Dial(const broker::DialTarget& target, Duration bound,
                        std::function<void(const absl::Status& why)> on_lost,
                        std::function<void(absl::StatusOr<Dialed>)> done) {
  std::make_shared<Attempt>(loop_, settings_, chunks_, target, std::move(on_lost), std::move(done))
      ->Start(bound);
}

}  // namespace sandbroker::link
