// Reading JSON that anybody may have written: what is missing, of another kind or too long reads as
// empty, and lists are read up to a bound. Pure.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdint>
#include <string>
#include <string_view>

namespace sandbroker::kubernetes {

inline constexpr size_t kMaxName = 253;  // the API's own bound
inline constexpr size_t kMaxWords = 1024;

inline boost::json::string_view ToJson(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view FromJson(boost::json::string_view text) {
  return {text.data(), text.size()};
}

// Of an empty object and array when there is none.
const boost::json::object& ObjectAt(const boost::json::object& object, std::string_view key);
const boost::json::array& ArrayAt(const boost::json::object& object, std::string_view key);
const boost::json::object& AsObject(const boost::json::value& value);

// Names and other things that mean something whole: empty when longer than `limit`.
std::string NameAt(const boost::json::object& object, std::string_view key,
                   size_t limit = kMaxName);
// With every byte escaped that is not printable ASCII.
std::string Printable(std::string_view text);
// Words for people: cut, unprintable bytes escaped.
std::string WordsAt(const boost::json::object& object, std::string_view key);
int64_t NumberAt(const boost::json::object& object, std::string_view key);
bool FlagAt(const boost::json::object& object, std::string_view key);
bool HasText(const boost::json::object& object, std::string_view key);

}  // namespace sandbroker::kubernetes
