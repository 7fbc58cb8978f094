// A Client against a scripted API server: the client on a real loop, the test beside both.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "lib/async/loop.h"
#include "lib/async/task_scope.h"
#include "lib/kube/client.h"
#include "tests/support/scripted_api_server.h"
#include "tests/support/scripted_controller.h"

namespace sandbroker::testing {

inline constexpr auto kBound = std::chrono::seconds(20);
// Of a call that is not meant to end by it.
inline constexpr Duration kCall = std::chrono::seconds(15);
inline const std::string kSpace = "space";

class KubeFixture : public ::testing::Test {
 protected:
  explicit KubeFixture(ScriptedApiServer::Options options = {}) : server_(std::move(options)) {
    loop_.Start();
    OnLoop([this] {
      scope_.emplace(loop_.context(), [](std::string_view name, std::string_view what) {
        ADD_FAILURE() << name << ": " << what;
      });
    });
    Connect(server_.access());
  }

  ~KubeFixture() override {
    std::promise<void> joined;
    loop_.Post([&] { scope_->Join([&] { joined.set_value(); }); });
    EXPECT_EQ(joined.get_future().wait_for(kBound), std::future_status::ready) << "still running";
    OnLoop([this] { client_.reset(); });
    loop_.Stop();
  }

  template <class Fn>
  void OnLoop(Fn fn) {
    std::promise<void> done;
    loop_.Post([&] {
      fn();
      done.set_value();
    });
    done.get_future().wait();
  }

  // A new client, as of now; its files are in files_.
  void Connect(kube::Access access, kube::PoolLimits limits = {}) {
    OnLoop([&] {
      client_ = std::make_unique<kube::Client>(
          loop_, loop_.context(), std::move(access), limits,
          [this](const std::string& path) { return ReadFile(path); });
    });
  }

  using Make = std::function<Task<kube::Result>(kube::Client& client, CancelToken cancel)>;
  // A call under way.
  std::future<kube::Result> Begin(Make make) {
    const auto promise = std::make_shared<std::promise<kube::Result>>();
    OnLoop([&] {
      cancel_ = CancelSource();
      scope_->Spawn("call", Keep(make(*client_, cancel_.token()), promise));
    });
    return promise->get_future();
  }
  static kube::Result End(std::future<kube::Result> result) {
    if (result.wait_for(kBound) == std::future_status::ready) return result.get();
    ADD_FAILURE() << "still waiting";
    return {};
  }
  kube::Result Call(Make make) { return End(Begin(std::move(make))); }
  // The latest call.
  void Cancel() {
    OnLoop([this] { cancel_.Cancel(); });
  }

  static boost::json::object Pod(const std::string& name) {
    return {{"metadata", {{"name", name}, {"labels", {{"app", name}}}}}, {"spec", {{"n", 1}}}};
  }
  static Make Create(const std::string& name, Duration bound = kCall) {
    return [name, bound](kube::Client& client, CancelToken cancel) {
      return client.Create(kPods, kSpace, Pod(name), bound, cancel);
    };
  }
  static Make Get(const std::string& name, Duration bound = kCall) {
    return [name, bound](kube::Client& client, CancelToken cancel) {
      return client.Get(kPods, kSpace, name, bound, cancel);
    };
  }
  static Make List(const std::string& labels = "") {
    return [labels](kube::Client& client, CancelToken cancel) {
      return client.List(kPods, kSpace, labels, kCall, cancel);
    };
  }

  void SetFile(const std::string& path, const std::string& text) {
    const std::lock_guard lock(mutex_);
    files_[path] = text;
  }

  ScriptedApiServer server_;
  Loop loop_;
  std::optional<TaskScope> scope_;
  std::unique_ptr<kube::Client> client_;
  CancelSource cancel_;

 private:
  static Task<void> Keep(Task<kube::Result> task,
                         std::shared_ptr<std::promise<kube::Result>> promise) {
    kube::Result result = co_await std::move(task);
    promise->set_value(std::move(result));
  }
  absl::StatusOr<std::string> ReadFile(const std::string& path) {
    const std::lock_guard lock(mutex_);
    const auto it = files_.find(path);
    if (it == files_.end()) return absl::NotFoundError(path);
    return it->second;
  }

  std::mutex mutex_;
  std::map<std::string, std::string> files_;
};

}  // namespace sandbroker::testing
