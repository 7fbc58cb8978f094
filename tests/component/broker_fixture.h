// A Broker over a scripted backend and scripted agents, with time that a test moves.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/async/task_scope.h"
#include "lib/broker/broker.h"
#include "lib/broker/ended.h"
#include "tests/support/fake_agent_link.h"
#include "tests/support/fake_backend.h"
#include "tests/support/manual_scheduler.h"

namespace sandbroker::testing {

// Writes down what it hears.
class RecordingObserver final : public broker::ExecutionObserver {
 public:
  void OnReady(const agent::Ready&) override { ++readies; }
  void OnOutput(uint64_t offset, int, SharedBytes data) override {
    EXPECT_EQ(offset, next_offset);  // neither a hole nor a repeat
    next_offset = offset + data.size();
    output += data.view();
    if (execution) execution->Consumed(data.size());
  }
  void OnGap(uint64_t from, uint64_t to) override {
    EXPECT_EQ(from, next_offset);
    next_offset = to;
    ++gaps;
  }
  void OnWarning(const std::string& reason, const std::string&) override {
    warnings.push_back(reason);
  }
  void OnInputClosed(uint64_t) override { ++input_closed; }
  void OnInputLimit(uint64_t limit) override { input_limit = limit; }
  void OnEnded(const agent::Ended& value) override {
    EXPECT_EQ(last_words++, 0);
    ended = value;
  }
  void OnFailed(const absl::Status& status) override {
    EXPECT_EQ(last_words++, 0);
    failed = status;
  }

  std::shared_ptr<broker::Execution> execution;
  int readies = 0;
  int gaps = 0;
  int input_closed = 0;
  int last_words = 0;
  uint64_t next_offset = 0;
  uint64_t input_limit = 0;
  std::string output;
  std::vector<std::string> warnings;
  std::optional<agent::Ended> ended;
  std::optional<absl::Status> failed;
};

// Time that a test moves, and tasks that must have ended when it does.
class TaskFixture : public ::testing::Test {
 protected:
  TaskFixture()
      : scope_(scheduler_.context(), [](std::string_view name, std::string_view what) {
          ADD_FAILURE() << name << ": " << what;
        }) {}

  // By the derived class, while what the tasks use still lives.
  void JoinTasks() {
    bool joined = false;
    scope_.Join([&] { joined = true; });
    scheduler_.RunPosted();
    EXPECT_TRUE(joined) << "a task never ended";
  }

  static broker::BrokerSettings Settings(const std::string& replica = "replica") {
    broker::BrokerSettings settings;
    settings.handle_key = std::string(32, 'k');
    settings.replica_id = replica;
    return settings;
  }

  // Starts a task; its result appears in the returned slot.
  template <class T>
  std::shared_ptr<std::optional<T>> Begin(Task<T> task) {
    auto slot = std::make_shared<std::optional<T>>();
    scope_.Spawn("test", Keep(std::move(task), slot));
    scheduler_.RunPosted();
    return slot;
  }
  template <class T>
  T Get(Task<T> task) {
    const auto slot = Begin(std::move(task));
    EXPECT_TRUE(slot->has_value()) << "still waiting";
    return **slot;
  }

  ManualScheduler scheduler_;
  TaskScope scope_;
  const broker::Principal me_{"local", "default"};
  const broker::Principal other_{"else", "other"};

 private:
  template <class T>
  static Task<void> Keep(Task<T> task, std::shared_ptr<std::optional<T>> slot) {
    T value = co_await std::move(task);
    slot->emplace(std::move(value));
  }
};

class BrokerFixture : public TaskFixture {
 protected:
  BrokerFixture() : broker_(scheduler_, scope_, backend_, receipts_, metrics_, Settings()) {}

  ~BrokerFixture() override { JoinTasks(); }

  absl::StatusOr<broker::Acquired> Acquire(broker::AcquireSpec spec = {}) {
    return Get(broker_.Acquire(me_, std::move(spec), CancelToken()));
  }
  std::string AcquireHandle(broker::AcquireSpec spec = {}) {
    const auto acquired = Acquire(std::move(spec));
    EXPECT_TRUE(acquired.ok()) << acquired.status();
    return acquired.ok() ? acquired->sandbox.handle : "";
  }
  std::shared_ptr<broker::Execution> Start(const std::string& handle, RecordingObserver* observer,
                                           bool with_stdin = false) {
    broker::StartSpec spec;
    spec.handle = handle;
    spec.start.set_execution_id("e1");
    spec.start.add_argv("prog");
    spec.start.set_stdin(with_stdin);
    const auto execution = broker_.Start(me_, spec, observer);
    EXPECT_TRUE(execution.ok()) << execution.status();
    if (!execution.ok()) return nullptr;
    observer->execution = *execution;
    return *execution;
  }
  std::shared_ptr<FakeStream> LastStream() { return backend_.only_link()->streams().back(); }

  FakeBackend backend_;
  MemoryReceipts receipts_;
  obs::Metrics metrics_;
  broker::Broker broker_;
};

}  // namespace sandbroker::testing
