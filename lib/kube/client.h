// The Api over HTTP: builds requests, sends them over pooled connections, tries again where that
// is safe, joins pages. Loop thread only; outlives its calls.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lib/kube/api.h"
#include "lib/kube/connection_pool.h"
#include "lib/kube/transport.h"

namespace sandbroker::kube {

// One answer; a page of a list; all pages of a list together.
inline constexpr size_t kMaxAnswer = 8 * 1024 * 1024;
inline constexpr size_t kMaxListPage = 64 * 1024 * 1024;
inline constexpr size_t kMaxList = 256 * 1024 * 1024;
inline constexpr int kListPage = 500;

class Client final : public Api {
 public:
  Client(Scheduler& scheduler, boost::asio::io_context& context, Access access,
         PoolLimits limits = {}, FileReader read = ReadSmallFile);
  ~Client() override;

  // Not OK: certificates or keys are none, and every call fails with kNotSent.
  const absl::Status& status() { return transport_.credentials().status(); }
  // The namespace of the account or the context; may be empty.
  const std::string& space() { return transport_.credentials().access().space; }

  Task<Result> Create(Resource resource, std::string space, boost::json::object object,
                      Duration bound, CancelToken cancel) override;
  Task<Result> PatchJson(Resource resource, std::string space, std::string name,
                         boost::json::array operations, Duration bound,
                         CancelToken cancel) override;
  Task<Result> Replace(Resource resource, std::string space, std::string name,
                       boost::json::object object, Duration bound, CancelToken cancel) override;
  Task<Result> Delete(Resource resource, std::string space, std::string name, DeleteOptions options,
                      Duration bound, CancelToken cancel) override;
  Task<Result> Get(Resource resource, std::string space, std::string name, Duration bound,
                   CancelToken cancel) override;
  Task<Result> List(Resource resource, std::string space, std::string labels, Duration bound,
                    CancelToken cancel) override;
  std::optional<Duration> clock_offset() const override { return transport_.clock_offset(); }

  // For watches, which have connections of their own.
  Transport& transport() { return transport_; }
  const ConnectionPool& pool() const { return pool_; }
  // The loop is to end when the last call has: no idle connection holds it up. Calls still work.
  void KeepNone() { pool_.KeepNone(); }

 private:
  Task<Result> Call(const HttpRequest& request, bool write, size_t max_body, CallEnd& end,
                    size_t* body_size = nullptr);
  Task<Exchanged> Once(const HttpRequest& request, bool write, size_t max_body, CallEnd& end);
  Task<Exchanged> OnceOver(const HttpRequest& request, bool fresh, size_t max_body, CallEnd& end,
                           bool* reused);
  Task<Result> Write(HttpRequest request, Duration bound, CancelToken cancel);
  Task<Result> ListOnce(const std::string& base, CallEnd& end, bool* expired);

  Transport transport_;
  ConnectionPool pool_;
};

}  // namespace sandbroker::kube
