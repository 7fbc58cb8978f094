// How one event becomes one line, whatever bytes are in it. Pure.
#pragma once

#include <chrono>
#include <initializer_list>
#include <string>
#include <string_view>

#include "lib/obs/log.h"

namespace sandbroker::obs {

std::string_view LevelName(Level level);

// As a JSON string, with its quotes: valid UTF-8, other bytes become U+FFFD.
std::string QuoteJson(std::string_view text);

// Without the newline, and with no newline or control byte inside. JSON is valid UTF-8: other
// bytes become U+FFFD. Text quotes values that hold anything but plain characters.
std::string FormatLine(LogFormat format, std::chrono::system_clock::time_point when, Level level,
                       std::string_view message, std::initializer_list<Field> fields);

}  // namespace sandbroker::obs
