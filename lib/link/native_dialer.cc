#include "lib/link/native_dialer.h"

#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "lib/base/tls.h"
#include "lib/link/link_errors.h"
#include "lib/link/tls_connector.h"

namespace sandbroker::link {

struct NativeDialer::Tls {
  boost::asio::ssl::context context{boost::asio::ssl::context::tlsv13_client};
  absl::Status usable = SetUpTlsClient(context.native_handle());
};

namespace {

using boost::system::error_code;
using std::chrono::milliseconds;

int PeerPid(UnixSocket& socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return 0;
  return peer.pid;
}

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

UniqueFd PeerPidfd(UnixSocket& socket) {
  int pidfd = -1;
  socklen_t size = sizeof(pidfd);
  if (getsockopt(socket.native_handle(), SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) != 0) pidfd = -1;
  return UniqueFd(pidfd);
}

// A connection on the same host is tried again sooner than one to a pod.
constexpr Duration kMaxDelayUnix = milliseconds(20);
constexpr Duration kMaxDelayTcp = milliseconds(100);

// One dial: connect (again and again while refused) -> upgrade -> proof, all within one bound.
class Attempt : public std::enable_shared_from_this<Attempt> {
 public:
  Attempt(Loop& loop, LinkSettings settings, std::shared_ptr<ChunkPool> chunks,
          boost::asio::ssl::context& tls, broker::DialTarget target,
          std::function<void(const absl::Status&)> on_lost,
          std::function<void(absl::StatusOr<broker::AgentDialer::Dialed>)> done)
      : loop_(loop),
        settings_(settings),
        chunks_(std::move(chunks)),
        tls_(tls),
        target_(std::move(target)),
        on_lost_(std::move(on_lost)),
        done_(std::move(done)),
        socket_(loop.context()) {}

  void Start(Duration bound) {
    bound_timer_ = loop_.After(bound, [self = shared_from_this()] { self->OnBound(); });
    target_.cancel.OnCancel([weak = weak_from_this()] {
      const auto self = weak.lock();
      if (self) self->Finish(MakeError(Reason::kCancelled, "the sandbox is not wanted any more"));
    });
    Connect();
  }

 private:
  void Connect() {
    if (!done_) return;
    if (target_.over_tls()) return ConnectTls();
    socket_ = UnixSocket(loop_.context());
    socket_.async_connect(
        boost::asio::local::stream_protocol::endpoint(target_.unix_path),
        [self = shared_from_this()](const error_code& error) { self->OnConnected(error); });
  }

  void ConnectTls() {
    connector_ = std::make_shared<TlsConnector>(loop_.context(), tls_);
    connector_->Start(target_.host, target_.port, [self = shared_from_this()](auto connected) {
      self->connector_.reset();
      if (!connected.ok()) return self->OnRefused(connected.status());
      self->Upgrade(*std::move(connected));
    });
  }

  void OnConnected(const error_code& error) {
    if (!done_) return;
    if (error) return OnRefused(NotMet("refused", StrCat("connect: ", error.message())));
    peer_pid_ = PeerPid(socket_);
    peer_pidfd_ = PeerPidfd(socket_);
    Upgrade(MakeTransport(std::move(socket_)));
  }

  void Upgrade(std::unique_ptr<Transport> transport) {
    link_ = std::make_shared<NativeLink>(loop_, settings_, chunks_, target_, std::move(transport));
    link_->Start(on_lost_, [self = shared_from_this()](const absl::Status& status) {
      if (!status.ok()) return self->OnRefused(status);
      self->Finish(
          broker::AgentDialer::Dialed{self->link_, self->peer_pid_, std::move(self->peer_pidfd_)});
    });
  }

  // A connection that broke before the proof is like one that was refused.
  void OnRefused(const absl::Status& status) {
    if (!done_) return;
    const std::string how = DetailOf(status).metadata["connection"];
    if (how != "refused" && how != "gone") return Finish(status);
    last_error_ = status;
    link_.reset();
    delay_ = std::min<Duration>(delay_ * 3 / 2, target_.over_tls() ? kMaxDelayTcp : kMaxDelayUnix);
    retry_timer_ = loop_.After(delay_, [self = shared_from_this()] { self->Connect(); });
  }

  void OnBound() {
    ErrorDetail detail = DetailOf(last_error_);
    if (connector_ && last_error_.ok()) detail.metadata["connection"] = "unanswered";
    detail.reason = Reason::kAgentUnreachable;
    std::string message = "the agent did not answer in time";
    if (!last_error_.ok()) StrAppend(&message, " (", MessageOf(last_error_), ")");
    Finish(MakeError(std::move(detail), message));
  }

  void Finish(absl::StatusOr<broker::AgentDialer::Dialed> result) {
    if (!done_) return;
    const auto self = shared_from_this();
    const auto done = std::exchange(done_, nullptr);
    const auto bound = std::move(bound_timer_);
    retry_timer_.reset();
    // What is under way does not outlive the answer.
    if (const auto connector = std::exchange(connector_, nullptr)) connector->Cancel();
    if (!result.ok() && link_) link_->Close(result.status());
    done(std::move(result));
    link_.reset();
  }

  Loop& loop_;
  const LinkSettings settings_;
  const std::shared_ptr<ChunkPool> chunks_;
  boost::asio::ssl::context& tls_;
  const broker::DialTarget target_;
  std::function<void(const absl::Status&)> on_lost_;
  std::function<void(absl::StatusOr<broker::AgentDialer::Dialed>)> done_;
  UnixSocket socket_;
  std::shared_ptr<TlsConnector> connector_;
  std::shared_ptr<NativeLink> link_;
  int peer_pid_ = 0;
  UniqueFd peer_pidfd_;
  absl::Status last_error_;
  Duration delay_ = std::chrono::microseconds(500);
  std::unique_ptr<Timer> bound_timer_;
  std::unique_ptr<Timer> retry_timer_;
};

absl::Status CheckTarget(const broker::DialTarget& target) {
  if (!target.over_tls()) return absl::OkStatus();
  if (target.signing_key == nullptr || !target.unix_path.empty() || target.port == 0) {
    return MakeError(Reason::kInternal, "a TLS target needs port and signing key, and no path");
  }
  return absl::OkStatus();
}

}  // namespace

NativeDialer::NativeDialer(Loop& loop, LinkSettings settings)
    : loop_(loop),
      settings_(settings),
      chunks_(std::make_shared<ChunkPool>(wire::kMaxData + 64, 32)),
      tls_(std::make_unique<Tls>()) {}

NativeDialer::~NativeDialer() = default;

void NativeDialer::Dial(const broker::DialTarget& target, Duration bound,
                        std::function<void(const absl::Status& why)> on_lost,
                        std::function<void(absl::StatusOr<Dialed>)> done) {
  absl::Status status = CheckTarget(target);
  if (status.ok() && target.over_tls()) status = tls_->usable;
  if (!status.ok()) return done(status);
  std::make_shared<Attempt>(loop_, settings_, chunks_, tls_->context, target, std::move(on_lost),
                            std::move(done))
      ->Start(bound);
}

}  // namespace sandbroker::link
