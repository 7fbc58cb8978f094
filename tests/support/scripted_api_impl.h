// What is behind a ScriptedApiServer: its thread, its connections, and what befalls each request.
// For scripted_api_*.cc only. All of it on the server's own loop, except Run and Await.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <future>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/async/loop.h"
#include "lib/async/task_scope.h"
#include "tests/support/scripted_api_server.h"

namespace sandbroker::testing {

// The parts of a request's target and what RBAC would call it.
void ParseTarget(std::string_view target, LoggedRequest* entry, std::string* version);
std::string VerbOf(std::string_view method, const LoggedRequest& entry);

// An empty `wanted` matches all.
inline bool Matches(const std::string& wanted, const std::string& found) {
  return wanted.empty() || wanted == found;
}

// One piece of a body whose length nobody knows.
std::string Chunk(std::string_view text);

// A connection, of either kind, and what its request waits for.
struct Session {
  Session(boost::asio::io_context& context, boost::asio::ssl::context* tls)
      : plain(tls == nullptr ? std::make_optional<boost::asio::ip::tcp::socket>(context)
                             : std::nullopt) {
    if (tls != nullptr) secure.emplace(context, *tls);
  }
  boost::asio::ip::tcp::socket& socket() { return plain ? *plain : secure->next_layer(); }
  void Cut() {
    boost::system::error_code ignored;
    socket().close(ignored);
    cut = true;
    Wake();
  }
  void Wake() { std::exchange(wake, OneShot<bool>()).Set(true); }

  std::optional<boost::asio::ip::tcp::socket> plain;
  std::optional<boost::asio::ssl::stream<boost::asio::ip::tcp::socket>> secure;
  int number = 0;
  bool busy = false;
  bool cut = false;
  OneShot<bool> wake;

  // A watch.
  bool watching = false;
  bool ending = false;
  std::string plural;
  std::string out;  // to be sent before anything else
};
using SessionPtr = std::shared_ptr<Session>;

class ScriptedApiServer::Impl {
 public:
  explicit Impl(Options options);
  ~Impl();

  // Runs `fn` on the server's thread and answers what it does.
  template <class Fn>
  auto Run(Fn fn) -> decltype(fn()) {
    if (loop.InLoop()) return fn();
    // Shared: the waiting thread may be gone before the call has returned.
    const auto task = std::make_shared<std::packaged_task<decltype(fn())()>>(std::move(fn));
    auto result = task->get_future();
    loop.Post([task] { (*task)(); });
    return result.get();
  }
  bool Await(std::function<bool()> holds);
  void Up();
  void Down();

  struct Held {
    std::shared_ptr<LoggedRequest> entry;
    OneShot<bool> go;
  };
  struct Waiter {
    std::function<bool()> holds;
    std::shared_ptr<std::promise<void>> promise;
  };

  size_t Watches(const std::string& plural) const {
    return static_cast<size_t>(std::count_if(sessions.begin(), sessions.end(), [&](const auto& s) {
      return s->watching && !s->cut && Matches(plural, s->plural);
    }));
  }
  template <class Fn>
  void EachWatch(const std::string& plural, Fn fn) {
    const auto all = sessions;
    for (const SessionPtr& session : all) {
      if (session->watching && Matches(plural, session->plural)) fn(*session);
    }
  }

  Loop loop;
  Options options;
  std::optional<boost::asio::ssl::context> tls;
  std::optional<TaskScope> scope;
  std::optional<boost::asio::ip::tcp::acceptor> acceptor;
  uint16_t port = 0;
  int generation = 0;  // of the acceptor
  int accepted = 0;
  std::list<SessionPtr> sessions;
  ObjectStore store;
  std::function<void(const ObjectStore::Change&)> hook;
  std::vector<std::shared_ptr<LoggedRequest>> log;
  std::list<Fault> faults;
  std::vector<Held> held;
  std::map<std::string, bool> muted;
  Duration clock_offset{};
  std::list<Waiter> waiters;

 private:
  using EntryPtr = std::shared_ptr<LoggedRequest>;

  Task<void> Accept();
  Task<void> Serve(SessionPtr session);
  Task<bool> Handle(SessionPtr session, EntryPtr entry, kube::Resource resource, bool keep);
  Task<void> Hold(EntryPtr entry);
  Task<void> WaitForCut(SessionPtr session);
  Task<void> Watch(SessionPtr session, EntryPtr entry, kube::Resource resource);
  Task<void> SeeClose(SessionPtr session);
  Task<bool> Reply(SessionPtr session, EntryPtr entry, ObjectStore::Answer answer,
                   std::string retry_after, bool keep);
  ObjectStore::Answer Apply(const LoggedRequest& entry, const kube::Resource& resource);
  std::optional<Fault> TakeFault(const LoggedRequest& entry);
  std::string WatchEvents(const LoggedRequest& entry, const kube::Resource& resource,
                          uint64_t* version, bool* over);
  void Changed();
};

}  // namespace sandbroker::testing
