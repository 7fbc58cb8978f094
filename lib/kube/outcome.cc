#include "lib/kube/outcome.h"

#include <algorithm>
#include <array>
#include <boost/json/parse.hpp>
#include <charconv>

#include "lib/base/strings.h"

namespace sandbroker::kube {
namespace {

namespace json = boost::json;

std::optional<json::object> ParseObject(std::string_view text) {
  json::parse_options options;
  options.max_depth = kMaxJsonDepth;
  boost::system::error_code error;
  json::value value = json::parse({text.data(), text.size()}, error, {}, options);
  if (error || !value.is_object()) return {};
  return std::move(value.get_object());
}

std::string TextOf(const json::object& object, const char* key) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr || !value->is_string()) return "";
  return {value->get_string().data(), value->get_string().size()};
}

// A Status object says more than its number; a proxy's page says nothing we show whole.
void ReadRefusal(const Exchanged& exchanged, Result* result) {
  const auto status = ParseObject(exchanged.body);
  if (status) {
    result->reason = TextOf(*status, "reason");
    result->message = TextOf(*status, "message");
  } else if (!exchanged.body.empty()) {
    result->message = CEscape(std::string_view(exchanged.body).substr(0, 200));
  }
  if (result->message.empty()) result->message = StrCat("HTTP status ", exchanged.status);
  result->retry_after = ParseRetryAfter(exchanged.retry_after);
}

bool Number(std::string_view text, int* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size() && *number >= 0;
}

}  // namespace

Result ToResult(const Exchanged& exchanged, bool write) {
  Result result;
  if (!exchanged.whole) {
    result.outcome = exchanged.sent || exchanged.any_answer ? Outcome::kUnknown : Outcome::kNotSent;
    result.message = exchanged.error;
    return result;
  }
  result.http_status = exchanged.status;
  if (exchanged.status >= 200 && exchanged.status < 300) {
    auto object = ParseObject(exchanged.body);
    result.outcome = object ? Outcome::kDone : Outcome::kUnknown;
    if (object) {
      result.object = *std::move(object);
    } else {
      result.message = "the answer is no JSON object, or too deep";
    }
    return result;
  }
  result.outcome = write && exchanged.status >= 500 ? Outcome::kUnknown : Outcome::kRefused;
  ReadRefusal(exchanged, &result);
  return result;
}

std::optional<Duration> ParseRetryAfter(std::string_view text) {
  int seconds = 0;
  if (text.empty() || text.size() > 9 || !Number(text, &seconds)) return {};
  return std::min<Duration>(std::chrono::seconds(seconds), kMaxRetryAfter);
}

std::optional<WallTime> ParseHttpDate(std::string_view text) {
  static constexpr std::array<std::string_view, 12> kMonths = {
      "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  // "Sun, 06 Nov 1994 08:49:37 GMT"
  if (text.size() != 29 || text.substr(3, 2) != ", " || text.substr(25) != " GMT") return {};
  const auto month = std::find(kMonths.begin(), kMonths.end(), text.substr(8, 3));
  int day = 0;
  int year = 0;
  int hour = 0;
  int minute = 0;
  int second = 0;
  const bool read = month != kMonths.end() && Number(text.substr(5, 2), &day) &&
                    Number(text.substr(12, 4), &year) && Number(text.substr(17, 2), &hour) &&
                    Number(text.substr(20, 2), &minute) && Number(text.substr(23, 2), &second);
  if (!read || text[7] != ' ' || text[11] != ' ' || text[16] != ' ' || text[19] != ':' ||
      text[22] != ':') {
    return {};
  }
  const std::chrono::year_month_day date{
      std::chrono::year(year),
      std::chrono::month(static_cast<unsigned>(month - kMonths.begin()) + 1),
      std::chrono::day(static_cast<unsigned>(day))};
  // A year that nanoseconds can't hold is none.
  if (!date.ok() || year < 1970 || year > 2200 || hour > 23 || minute > 59 || second > 60)
    return {};
  return WallTime(std::chrono::sys_days(date).time_since_epoch() + std::chrono::hours(hour) +
                  std::chrono::minutes(minute) + std::chrono::seconds(second));
}

std::optional<Duration> RetryPolicy::Next(const Result& result, bool hostile, Duration left,
                                          double random) {
  const bool busy = result.outcome == Outcome::kRefused &&
                    (result.http_status == 429 || result.http_status >= 500);
  const bool lost = result.outcome == Outcome::kUnknown && result.http_status == 0 && !hostile;
  const bool again = result.outcome == Outcome::kNotSent || (!write_ && (busy || lost));
  if (!again) return {};
  Duration delay = kFirstDelay;
  for (int i = 0; i < tries_ && delay < kMaxDelay; ++i) delay *= 2;
  ++tries_;
  delay = std::min(delay, kMaxDelay);
  // Between half and all of it, so that many do not come back at once; never before the server
  // wants us.
  delay = std::chrono::duration_cast<Duration>(delay * (0.5 + random / 2));
  if (result.retry_after) delay += *result.retry_after;
  if (delay >= left) return {};
  return delay;
}

void ClockOffset::Add(WallTime date, WallTime before, WallTime after) {
  if (after < before) return;  // our clock was set meanwhile
  const Duration low = date - after;
  const Duration high = date + std::chrono::seconds(1) - before;
  if (known_) {
    const Duration drift = std::max(after - added_, Duration(0)) / 1000;
    low_ -= drift;
    high_ += drift;
  }
  // Nothing in common: one of the clocks was set, and what was known is void.
  if (!known_ || low > high_ || high < low_) {
    low_ = low;
    high_ = high;
  } else {
    low_ = std::max(low_, low);
    high_ = std::min(high_, high);
  }
  known_ = true;
  added_ = after;
}

std::optional<Duration> ClockOffset::offset() const {
  if (!known_) return {};
  return low_ + (high_ - low_) / 2;
}

}  // namespace sandbroker::kube
