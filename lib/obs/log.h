// The process's log: one line an event, text or JSON, to stderr. Fields carry what varies, so that
// messages can be searched for. Secrets, argv, env and output never go in. Any thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace sandbroker::obs {

enum class Level { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kText, kJson };

// Once, before other threads exist. Default: kText from kInfo on.
void ConfigureLog(LogFormat format, Level lowest);
// Waits until what was logged before is written, at most two seconds.
void FlushLog();
// Lines given up because stderr's reader stood still while the queue (8192 lines) filled.
uint64_t DroppedLogLines();

struct Field {
  Field(std::string_view k, std::string v) : key(k), value(std::move(v)) {}
  Field(std::string_view k, const char* v) : key(k), value(v) {}
  Field(std::string_view k, std::string_view v) : key(k), value(v) {}
  Field(std::string_view k, long long v) : key(k), value(std::to_string(v)), quoted(false) {}
  Field(std::string_view k, unsigned long long v)
      : key(k), value(std::to_string(v)), quoted(false) {}
  Field(std::string_view k, int v) : Field(k, static_cast<long long>(v)) {}
  Field(std::string_view k, long v) : Field(k, static_cast<long long>(v)) {}
  Field(std::string_view k, unsigned v) : Field(k, static_cast<unsigned long long>(v)) {}
  Field(std::string_view k, unsigned long v) : Field(k, static_cast<unsigned long long>(v)) {}

  std::string_view key;  // a literal, lower_snake
  std::string value;
  bool quoted = true;  // a string in JSON
};

void Log(Level level, std::string_view message, std::initializer_list<Field> fields = {});

}  // namespace sandbroker::obs
