#include <gtest/gtest.h>

#include <functional>

#include "lib/base/status.h"
#include "lib/config/config.h"

namespace sandbroker::config {
namespace {

Config Good() {
  Config config;
  config.server.state_dir = "/var/lib/sandbroker";
  return config;
}

std::string ErrorAfter(const std::function<void(Config&)>& change) {
  Config config = Good();
  change(config);
  const absl::Status status = Validate(config);
  return status.ok() ? "OK" : std::string(MessageOf(status));
}

TEST(Validate, Defaults_AreGood) { EXPECT_TRUE(Validate(Good()).ok()); }

TEST(Validate, OpenAddress_IsRefused) {
  for (const char* open : {"0.0.0.0:7443", "[::]:7443", "192.168.0.1:1"}) {
    EXPECT_NE(ErrorAfter([open](Config& c) {
                c.server.listen = open;
              }).find("is not a loopback address (127.0.0.0/8 or [::1]); without TLS"),
              std::string::npos);
    EXPECT_TRUE(
        ErrorAfter([open](Config& c) { c.server.admin = open; }).starts_with("server.admin: "));
  }
}

TEST(Validate, UnreadableAddress_IsRefused) {
  EXPECT_EQ(ErrorAfter([](Config& c) { c.server.listen = "example.org:1"; }),
            "server.listen: 'example.org:1' is not HOST:PORT with a numeric host");
}

TEST(Validate, NothingToServeOn_IsRefused) {
  EXPECT_EQ(ErrorAfter([](Config& c) { c.server.listen = ""; }),
            "server.listen: off, and server.unix_socket is empty: nothing to serve on");
  EXPECT_EQ(ErrorAfter([](Config& c) {
              c.server.listen = "";
              c.server.unix_socket = "/run/s";
            }),
            "OK");
}

struct BadCase {
  const char* knob;
  std::function<void(Config&)> change;
};

TEST(Validate, EachValueOutOfRange_IsRefusedByItsName) {
  using std::chrono::hours;
  const BadCase cases[] = {
      {"server.unix_socket", [](Config& c) { c.server.unix_socket = std::string(108, 'a'); }},
      {"server.state_dir", [](Config& c) { c.server.state_dir = ""; }},
      {"server.blocking_threads", [](Config& c) { c.server.blocking_threads = 0; }},
      {"server.blocking_jobs", [](Config& c) { c.server.blocking_jobs = 1; }},
      {"server.heartbeat_interval", [](Config& c) { c.server.heartbeat_interval = Duration(0); }},
      {"server.output_window", [](Config& c) { c.server.output_window = {1}; }},
      {"server.max_streams_per_sandbox", [](Config& c) { c.server.max_streams_per_sandbox = 0; }},
      {"server.lease_margin", [](Config& c) { c.server.lease_margin = hours(1); }},
      {"server.min_backstop", [](Config& c) { c.server.min_backstop = Duration(0); }},
      {"server.backend", [](Config& c) { c.server.backend = "cloud"; }},
      {"log.format", [](Config& c) { c.log.format = "xml"; }},
      {"log.level", [](Config& c) { c.log.level = "loud"; }},
      {"drain.delay", [](Config& c) { c.drain.delay = hours(1); }},
      {"drain.grace", [](Config& c) { c.drain.grace = hours(2); }},
      {"local.bwrap", [](Config& c) { c.local.bwrap = ""; }},
      {"local.uid_first", [](Config& c) { c.local.uid_first = 0; }},
      {"local.uid_count", [](Config& c) { c.local.uid_count = 63; }},
      {"local.cgroup", [](Config& c) { c.local.cgroup = "sandboxes"; }},
      {"local.cgroup", [](Config& c) { c.local.cgroup = "/a/../b"; }},
      {"local.start_bound", [](Config& c) { c.local.start_bound = Duration(0); }},
      {"local.relink_bound", [](Config& c) { c.local.relink_bound = hours(25); }},
      {"templates", [](Config& c) { c.templates["Big"] = {}; }},
      {"templates.default.workspace", [](Config& c) { c.templates["default"].workspace = {1}; }},
      {"templates.default.tmp", [](Config& c) { c.templates["default"].tmp = {1}; }},
      {"templates.default.memory", [](Config& c) { c.templates["default"].memory = {1}; }},
      {"templates.default.pids", [](Config& c) { c.templates["default"].pids = 15; }},
      {"templates.default.open_files", [](Config& c) { c.templates["default"].open_files = 1; }},
      {"templates.default.limits", [](Config& c) { c.templates["default"].limits = "soft"; }},
      {"templates.default.env", [](Config& c) { c.templates["default"].env["A=B"] = "s3cret"; }},
      {"pools", [](Config& c) { c.pools["-a"] = {}; }},
      {"pools.default.template", [](Config& c) { c.pools["default"].template_name = "x"; }},
      {"pools.default.limit", [](Config& c) { c.pools["default"].limit = 0; }},
      {"pools.default.warm", [](Config& c) { c.pools["default"].warm = 65; }},
      {"pools.default.max_waiting", [](Config& c) { c.pools["default"].max_waiting = 100001; }},
      {"pools.default.max_starting", [](Config& c) { c.pools["default"].max_starting = 0; }},
  };
  for (const BadCase& bad : cases) {
    const std::string error = ErrorAfter(bad.change);
    EXPECT_TRUE(error.starts_with(std::string(bad.knob) + ": ")) << bad.knob << " gave " << error;
    EXPECT_EQ(error.find("s3cret"), std::string::npos);
  }
}

TEST(Validate, Kubernetes_IsCheckedWhereItIsTheBackend) {
  using std::chrono::hours;
  const BadCase cases[] = {
      {"kubernetes.namespace", [](Config& c) { c.kubernetes.space = "a/b"; }},
      {"kubernetes.context", [](Config& c) { c.kubernetes.context = "dev"; }},
      {"kubernetes.key_secret", [](Config& c) { c.kubernetes.key_secret = ""; }},
      {"kubernetes.agent_port", [](Config& c) { c.kubernetes.agent_port = 65536; }},
      {"kubernetes.request_bound", [](Config& c) { c.kubernetes.request_bound = Duration(0); }},
      {"kubernetes.dial_bound", [](Config& c) { c.kubernetes.dial_bound = Duration(0); }},
      {"kubernetes.relink_bound", [](Config& c) { c.kubernetes.relink_bound = hours(25); }},
      {"pools.default.warm_pool", [](Config& c) { c.pools["default"].warm_pool = "-"; }},
  };
  for (const BadCase& bad : cases) {
    const std::string error = ErrorAfter([&bad](Config& c) {
      c.server.backend = "kubernetes";
      bad.change(c);
    });
    EXPECT_TRUE(error.starts_with(std::string(bad.knob) + ": ")) << bad.knob << " gave " << error;
  }
  EXPECT_EQ(ErrorAfter([](Config& c) {
              c.server.backend = "kubernetes";
              c.local.uid_count = 1;  // no local sandboxes there
            }),
            "OK");
}

TEST(Validate, DisabledPool_NeedsNoUids) {
  EXPECT_EQ(ErrorAfter([](Config& c) {
              c.local.uid_count = 1;
              c.pools["default"].enabled = false;
            }),
            "OK");
}

}  // namespace
}  // namespace sandbroker::config
