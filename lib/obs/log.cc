// spdlog carries the lines: a bounded queue and one thread that writes them. A reader of stderr
// that stands still costs the oldest lines, never the loop's time.
#include "lib/obs/log.h"

#include <spdlog/async.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "lib/obs/log_format.h"

namespace sandbroker::obs {
namespace {

constexpr size_t kQueueLines = 8192;
constexpr std::chrono::seconds kFlushBound(2);

// Writes whole lines to file descriptor 2 and counts the flushes that came by.
class StderrSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  uint64_t flushes() {
    const std::lock_guard lock(flush_mutex_);
    return flushes_;
  }

  // False when `count` flushes have not come by within the bound.
  bool AwaitFlushes(uint64_t count) {
    std::unique_lock lock(flush_mutex_);
    return flushed_.wait_for(lock, kFlushBound, [&] { return flushes_ >= count; });
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    std::string line(message.payload.data(), message.payload.size());
    line.push_back('\n');
    for (std::string_view rest = line; !rest.empty();) {
      const ssize_t written = write(STDERR_FILENO, rest.data(), rest.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return;  // nobody is left to be told
      rest.remove_prefix(static_cast<size_t>(written));
    }
  }

  void flush_() override {
    const std::lock_guard lock(flush_mutex_);
    ++flushes_;
    flushed_.notify_all();
  }

 private:
  std::mutex flush_mutex_;
  std::condition_variable flushed_;
  uint64_t flushes_ = 0;
};

struct State {
  LogFormat format = LogFormat::kText;
  Level lowest = Level::kInfo;
  std::shared_ptr<StderrSink> sink = std::make_shared<StderrSink>();
  std::shared_ptr<spdlog::details::thread_pool> queue;
  std::shared_ptr<spdlog::logger> logger = std::make_shared<spdlog::logger>("sandbroker", sink);
};

// Never destroyed: lines may come from threads that outlive main, and a stderr that is stuck must
// not keep the process from ending.
State& Global() {
  static State* state = new State;
  return *state;
}

spdlog::level::level_enum ToSpdlog(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarning:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

}  // namespace

void ConfigureLog(LogFormat format, Level lowest) {
  State& state = Global();
  state.format = format;
  state.lowest = lowest;
  if (!state.queue) {
    state.queue = std::make_shared<spdlog::details::thread_pool>(kQueueLines, 1);
    state.logger = std::make_shared<spdlog::async_logger>(
        "sandbroker", state.sink, state.queue, spdlog::async_overflow_policy::overrun_oldest);
  }
  state.logger->set_level(spdlog::level::debug);
}

void FlushLog() {
  State& state = Global();
  const uint64_t before = state.sink->flushes();
  state.logger->flush();
  if (state.queue) state.sink->AwaitFlushes(before + 1);
}

uint64_t DroppedLogLines() {
  State& state = Global();
  return state.queue ? state.queue->overrun_counter() : 0;
}

void Log(Level level, std::string_view message, std::initializer_list<Field> fields) {
  State& state = Global();
  if (level < state.lowest) return;
  const std::string line =
      FormatLine(state.format, std::chrono::system_clock::now(), level, message, fields);
  state.logger->log(ToSpdlog(level), spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace sandbroker::obs
