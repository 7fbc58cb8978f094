#include "server/app/unix_listener.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstring>

#include "lib/base/strings.h"
#include "lib/obs/log.h"

namespace sandbroker::app {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Protocol = asio::local::stream_protocol;

constexpr int kBacklog = 512;
// After a failed accept, which is mostly a lack of descriptors.
constexpr std::chrono::milliseconds kPause(100);

// Whether somebody accepts connections there.
bool Answers(asio::io_context& context, const std::string& path) {
  Protocol::socket probe(context);
  error_code error;
  probe.connect(Protocol::endpoint(path), error);
  return !error;
}

}  // namespace

UnixListener::UnixListener(asio::io_context& context, TaskScope& scope,
                           std::function<void(UniqueFd)> hand_over)
    : scope_(scope), hand_over_(std::move(hand_over)), acceptor_(context), pause_(context) {}

UnixListener::~UnixListener() { Stop(); }

absl::Status UnixListener::Open(const std::string& path) {
  const auto failed = [&path](std::string_view what) {
    return absl::UnavailableError(StrCat("listen on unix socket ", path, ": ", what));
  };
  struct stat info {};
  if (lstat(path.c_str(), &info) == 0) {
    if (!S_ISSOCK(info.st_mode)) return failed("a file that is no socket is in the way");
    auto& context = static_cast<asio::io_context&>(acceptor_.get_executor().context());
    if (Answers(context, path)) return failed("another process listens there");
    unlink(path.c_str());
  }
  error_code error;
  acceptor_.open(Protocol(), error);
  if (error) return failed(error.message());
  // The mode must be right from the first moment on; no other thread makes files yet.
  const mode_t before = umask(0177);
  acceptor_.bind(Protocol::endpoint(path), error);
  umask(before);
  if (error) return failed(error.message());
  path_ = path;
  acceptor_.listen(kBacklog, error);
  return error ? failed(error.message()) : absl::OkStatus();
}

void UnixListener::Start() { scope_.Spawn("accept on the unix socket", AcceptAll()); }

void UnixListener::Stop() {
  error_code ignored;
  acceptor_.close(ignored);
  pause_.cancel();
  if (!path_.empty()) unlink(path_.c_str());
  path_.clear();
}

Task<void> UnixListener::AcceptAll() {
  constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);
  while (acceptor_.is_open()) {
    auto [error, socket] = co_await acceptor_.async_accept(kNoThrow);
    if (!error) {
      Admit(std::move(socket));
    } else if (acceptor_.is_open()) {
      obs::Log(obs::Level::kWarning, "accept failed", {{"why", error.message()}});
      pause_.expires_after(kPause);
      co_await pause_.async_wait(kNoThrow);
    }
  }
}

void UnixListener::Admit(Protocol::socket socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return;
  if (peer.uid != geteuid() && peer.uid != 0) {
    obs::Log(obs::Level::kWarning, "refused a peer on the unix socket", {{"uid", peer.uid}});
    return;
  }
  error_code error;
  UniqueFd fd(socket.release(error));
  if (error || fcntl(fd.get(), F_SETFD, FD_CLOEXEC) != 0 ||
      fcntl(fd.get(), F_SETFL, O_NONBLOCK) != 0) {
    return;
  }
  hand_over_(std::move(fd));
}

}  // namespace sandbroker::app
