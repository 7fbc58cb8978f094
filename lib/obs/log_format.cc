// Escaping for both formats. An event's bytes may come from callers and from sandboxes, so a line
// must stay a line and a value must stay inside its quotes.
#include "lib/obs/log_format.h"

#include <cstdint>
#include <cstdio>
#include <ctime>

namespace sandbroker::obs {
namespace {

std::string Timestamp(std::chrono::system_clock::time_point when) {
  const auto millis =
      std::chrono::duration_cast<std::chrono::milliseconds>(when.time_since_epoch()).count();
  const std::time_t seconds = millis / 1000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[80];
  std::snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", parts.tm_year + 1900,
                parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                static_cast<int>(millis % 1000));
  return text;
}

// Length of the well-formed UTF-8 sequence at the front of `text`, 0 if there is none: no
// overlong forms, no surrogates, nothing beyond U+10FFFF.
size_t Utf8Length(std::string_view text) {
  const auto byte = [text](size_t at) -> uint8_t {
    return at < text.size() ? static_cast<uint8_t>(text[at]) : 0;
  };
  const auto follows = [&byte](size_t at, uint8_t low = 0x80, uint8_t high = 0xBF) {
    return byte(at) >= low && byte(at) <= high;
  };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return follows(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const uint8_t low = lead == 0xE0 ? 0xA0 : 0x80;
    const uint8_t high = lead == 0xED ? 0x9F : 0xBF;
    return follows(1, low, high) && follows(2) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const uint8_t low = lead == 0xF0 ? 0x90 : 0x80;
    const uint8_t high = lead == 0xF4 ? 0x8F : 0xBF;
    return follows(1, low, high) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

void AppendQuoted(std::string* line, std::string_view text) {
  line->push_back('"');
  while (!text.empty()) {
    const uint8_t c = static_cast<uint8_t>(text.front());
    const size_t length = Utf8Length(text);
    if (c == '"' || c == '\\') {
      line->push_back('\\');
      line->push_back(static_cast<char>(c));
    } else if (c < 0x20 || c == 0x7F) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", c);
      line->append(escape);
    } else if (length == 0) {
      line->append("\xEF\xBF\xBD");
    } else {
      line->append(text.substr(0, length));
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  line->push_back('"');
}

// Safe in a text line without quotes.
bool IsPlain(std::string_view text) {
  for (const char c : text) {
    if (c <= ' ' || c > '~' || c == '"' || c == '=' || c == '\\') return false;
  }
  return !text.empty();
}

// A message is a literal of ours, but a line must stay one whatever it is.
void AppendMessage(std::string* line, std::string_view message) {
  for (const char c : message) {
    if (c < ' ' || c > '~') return AppendQuoted(line, message);
  }
  line->append(message);
}

}  // namespace

std::string_view LevelName(Level level) {
  switch (level) {
    case Level::kDebug:
      return "debug";
    case Level::kInfo:
      return "info";
    case Level::kWarning:
      return "warning";
    case Level::kError:
      return "error";
  }
  return "unknown";
}

std::string QuoteJson(std::string_view text) {
  std::string quoted;
  AppendQuoted(&quoted, text);
  return quoted;
}

std::string FormatLine(LogFormat format, std::chrono::system_clock::time_point when, Level level,
                       std::string_view message, std::initializer_list<Field> fields) {
  const bool json = format == LogFormat::kJson;
  std::string line = json ? "{\"time\":\"" : "";
  line.append(Timestamp(when)).append(json ? "\",\"level\":\"" : " ");
  line.append(LevelName(level)).append(json ? "\",\"message\":" : " ");
  if (json) {
    AppendQuoted(&line, message);
  } else {
    AppendMessage(&line, message);
  }
  for (const Field& field : fields) {
    line.append(json ? "," : " ");
    if (json) {
      AppendQuoted(&line, field.key);
    } else {
      line.append(field.key);
    }
    line.append(json ? ":" : "=");
    if (field.quoted && (json || !IsPlain(field.value))) {
      AppendQuoted(&line, field.value);
    } else {
      line.append(field.value);
    }
  }
  if (json) line.push_back('}');
  return line;
}

}  // namespace sandbroker::obs
