// A Kubernetes API server that a test scripts: a real HTTP server on loopback (port 0, plain or
// TLS) with an ObjectStore behind it, a log of every request, and faults. It runs a thread of its
// own; every function may be called from any thread and returns when it is done.
//
//   ScriptedApiServer server;
//   kube::Client client(loop, loop.context(), server.access());
//   server.Script({.verb = "create", .plural = "sandboxclaims", .what = Fault::What::kCutAfter});
//   ... the client's Create is kUnknown, and server.Find(...) shows the object all the same.
//   EXPECT_EQ(server.Count("create", "sandboxclaims"), 1u);
//   EXPECT_EQ(server.CountReads(), 0u);
//
// Verbs are those of RBAC: create, get, list, watch, update, patch, delete.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/kube/access.h"
#include "lib/kube/api.h"
#include "tests/support/object_store.h"

namespace sandbroker::testing {

// One request, as it came.
struct LoggedRequest {
  std::string verb;
  std::string group;
  std::string plural;
  std::string space;
  std::string name;
  std::map<std::string, std::string> query;
  std::string content_type;
  std::string authorization;
  std::string body;
  int connection = 0;  // counted from 1, in the order they were accepted
  int status = 0;      // of the answer; 0 while there is none
};

// What befalls the next requests that match; "" matches any.
struct Fault {
  enum class What {
    kAnswer,        // `status` and a Status object; no effect
    kCut,           // the connection is closed; no effect
    kCutAfter,      // the effect takes place, and the connection is closed
    kSilence,       // neither effect nor answer; the connection stays
    kSilenceAfter,  // the effect takes place; no answer
    kHold,          // waits before the effect until Release
    kHoldAnswer,    // waits after the effect, before the answer, until Release
    kRaw,           // `raw` is sent as it is, and the connection is closed
    kRawSilence,    // `raw` is sent as it is, and nothing after it
  };
  std::string verb = {};
  std::string plural = {};
  std::string name = {};  // of a create: the object's own
  What what = What::kAnswer;
  int times = 1;  // -1: always
  int status = 500;
  std::string reason = "InternalError";
  std::string message = "scripted";
  std::string retry_after = {};
  std::string raw = {};
};

class ScriptedApiServer {
 public:
  struct Options {
    // PEM; empty: plain HTTP.
    std::string certificate = {};
    std::string key = {};
    std::string client_ca = {};  // clients need a certificate of it
    std::string token = {};      // any request without it is answered 401
  };

  ScriptedApiServer();
  explicit ScriptedApiServer(Options options);
  ~ScriptedApiServer();

  uint16_t port() const;
  // For a client without credentials (TLS: `certificate` is its own CA).
  kube::Access access() const;

  // Objects, changed as by somebody else: no log, no faults, watches see it.
  boost::json::object Add(const kube::Resource& resource, const std::string& space,
                          boost::json::object object);
  std::optional<boost::json::object> Find(const kube::Resource& resource, const std::string& space,
                                          const std::string& name) const;
  std::vector<boost::json::object> All(const kube::Resource& resource,
                                       const std::string& space) const;
  bool Update(const kube::Resource& resource, const std::string& space, const std::string& name,
              const std::function<void(boost::json::object&)>& change);
  bool Remove(const kube::Resource& resource, const std::string& space, const std::string& name);
  // Anything else, on the server's thread.
  void WithStore(const std::function<void(ObjectStore&)>& work) const;
  // Hears of each change after its answer's place in the order is fixed, on the server's thread.
  // For controllers; set before requests come.
  void OnChange(std::function<void(const ObjectStore::Change&)> hook);

  // Waits, 20 s at most, until it holds; asked on the server's thread after each change.
  bool Await(std::function<bool()> holds) const;

  std::vector<LoggedRequest> log() const;
  void ClearLog();
  // "" counts all.
  size_t Count(const std::string& verb, const std::string& plural = "") const;
  // get and list together; watches are no reads.
  size_t CountReads() const { return Count("get") + Count("list"); }
  size_t CountWrites() const;
  // Waits, 20 s at most, until that many came.
  bool AwaitCount(const std::string& verb, const std::string& plural, size_t count) const;
  // Connections accepted so far.
  int connections() const;
  // Of those, the ones that are open now.
  size_t open_connections() const;

  void Script(Fault fault);
  void ClearFaults();
  // Held requests, in the order they came.
  std::vector<LoggedRequest> held() const;
  bool AwaitHeld(size_t count) const;
  // Lets one go on; false: there is none of that index.
  bool Release(size_t index = 0);
  // No request but with this token; empty: any.
  void SetToken(const std::string& token);
  // The Date header is that much ahead.
  void SetClockOffset(Duration offset);

  // Watches that are open now.
  size_t watches(const std::string& plural = "") const;
  bool AwaitWatches(const std::string& plural, size_t count) const;
  // Breaks them off; ends them as a server does at its timeout; sends a bookmark; any bytes.
  void CutWatches(const std::string& plural = "");
  void EndWatches(const std::string& plural = "");
  void SendBookmarks(const std::string& plural = "");
  void SendOnWatches(const std::string& plural, const std::string& bytes);
  // Open and later watches of it say nothing, not even that they end.
  void MuteWatches(const std::string& plural, bool mute);
  // Watches from a version before now are answered by an ERROR event of 410.
  void Compact();

  // The server goes away (connections are cut, new ones refused) and comes back with its objects
  // on the same port.
  void Down();
  void Up();
  // Cuts connections on which no request is running; waits, 20 s at most, for one: the client may
  // have its answer a little before this side is done with it.
  bool CutIdle();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sandbroker::testing
