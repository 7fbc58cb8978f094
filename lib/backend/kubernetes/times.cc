#include "lib/backend/kubernetes/times.h"

#include <cstdint>
#include <cstdio>

namespace sandbroker::kubernetes {
namespace {

using std::chrono::days;
using std::chrono::seconds;

constexpr int64_t kFirstYear = 1970;
constexpr int64_t kLastYear = 2200;

std::string FormatDate(std::chrono::sys_seconds time) {
  const auto day = std::chrono::floor<days>(time);
  const std::chrono::year_month_day date(day);
  const int64_t second = (time - day).count();
  char text[48];
  std::snprintf(text, sizeof(text), "%04d-%02u-%02uT%02d:%02d:%02d", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(second / 3600), static_cast<int>(second / 60 % 60),
                static_cast<int>(second % 60));
  return text;
}

std::string FormatFraction(WallTime time, int64_t unit, int digits) {
  const auto whole = std::chrono::floor<seconds>(time);
  char text[24];
  std::snprintf(text, sizeof(text), ".%0*lldZ", digits,
                static_cast<long long>((time - whole).count() / unit));
  return FormatDate(whole) + text;
}

// Takes pieces off the front; after the first that does not fit, ok() is false.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  int64_t Digits(size_t count, int64_t low, int64_t high) {
    int64_t number = 0;
    if (rest_.size() < count) ok_ = false;
    for (size_t i = 0; i < count && ok_; ++i) {
      if (rest_[i] < '0' || rest_[i] > '9') ok_ = false;
      number = number * 10 + (rest_[i] - '0');
    }
    if (!ok_) return low;
    rest_.remove_prefix(count);
    if (number < low || number > high) ok_ = false;
    return ok_ ? number : low;
  }
  bool TryMark(char mark) {
    if (!ok_ || rest_.empty() || rest_.front() != mark) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void Mark(char mark) {
    if (!TryMark(mark)) ok_ = false;
  }
  // Behind the point: one digit at least; those after the ninth change nothing.
  int64_t Fraction() {
    int64_t nanos = 0;
    size_t digits = 0;
    for (; !rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9'; ++digits) {
      if (digits < 9) nanos = nanos * 10 + (rest_.front() - '0');
      rest_.remove_prefix(1);
    }
    if (digits == 0 || digits > 18) ok_ = false;
    for (; digits < 9; ++digits) nanos *= 10;
    return nanos;
  }
  void Fail() { ok_ = false; }
  bool ok() const { return ok_; }
  bool AtEnd() const { return ok_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

seconds ReadZone(Scanner* scan) {
  if (scan->TryMark('Z')) return seconds(0);
  const bool behind = scan->TryMark('-');
  if (!behind) scan->Mark('+');
  const int64_t hours = scan->Digits(2, 0, 23);
  scan->Mark(':');
  const seconds zone(hours * 3600 + scan->Digits(2, 0, 59) * 60);
  return behind ? -zone : zone;
}

}  // namespace

std::string FormatNanos(WallTime time) { return FormatFraction(time, 1, 9); }
std::string FormatMicros(WallTime time) { return FormatFraction(time, 1000, 6); }
std::string FormatSeconds(WallTime time) {
  return FormatDate(std::chrono::ceil<seconds>(time)) + "Z";
}

std::optional<WallTime> ParseTime(std::string_view text) {
  Scanner scan(text);
  const auto year = static_cast<int>(scan.Digits(4, kFirstYear, kLastYear));
  scan.Mark('-');
  const auto month = static_cast<unsigned>(scan.Digits(2, 1, 12));
  scan.Mark('-');
  const auto day = static_cast<unsigned>(scan.Digits(2, 1, 31));
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month),
                                         std::chrono::day(day)};
  if (!date.ok()) scan.Fail();
  scan.Mark('T');
  const seconds hours(scan.Digits(2, 0, 23) * 3600);
  scan.Mark(':');
  const seconds minutes(scan.Digits(2, 0, 59) * 60);
  scan.Mark(':');
  const seconds rest(scan.Digits(2, 0, 59));
  const int64_t nanos = scan.TryMark('.') ? scan.Fraction() : 0;
  const seconds zone = ReadZone(&scan);
  if (!scan.AtEnd()) return std::nullopt;
  const WallTime time =
      WallTime(std::chrono::sys_days(date)) + hours + minutes + rest + Duration(nanos) - zone;
  if (time < WallTime()) return std::nullopt;
  return time;
}

}  // namespace sandbroker::kubernetes
