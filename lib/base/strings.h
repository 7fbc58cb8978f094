// Text helpers that take and give std::string_view. The distribution builds Abseil with a
// string_view type of its own, to which std::string_view does not convert; this is the one place
// that knows. What C++20 has (starts_with, from_chars) is used as it is. Any thread.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace sandbroker {

inline absl::string_view ToAbsl(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view FromAbsl(absl::string_view text) { return {text.data(), text.size()}; }

namespace internal {

// What absl::StrCat takes: a std::string_view is turned, everything else goes on as it is.
inline absl::string_view CatArgument(std::string_view text) { return ToAbsl(text); }
template <class T>
requires(!std::is_convertible_v<const T&, std::string_view>) const T& CatArgument(const T& part) {
  return part;
}

}  // namespace internal

template <class... Parts>
std::string StrCat(const Parts&... parts) {
  return absl::StrCat(internal::CatArgument(parts)...);
}

template <class... Parts>
void StrAppend(std::string* text, const Parts&... parts) {
  absl::StrAppend(text, internal::CatArgument(parts)...);
}

// Every piece, empty ones too; a text without `separator` is one piece. Pieces look into `text`.
inline std::vector<std::string_view> StrSplit(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  for (size_t from = 0;;) {
    const size_t to = text.find(separator, from);
    pieces.push_back(text.substr(from, to == std::string_view::npos ? to : to - from));
    if (to == std::string_view::npos) return pieces;
    from = to + 1;
  }
}

template <class Pieces>
std::string StrJoin(const Pieces& pieces, std::string_view separator) {
  std::string text;
  std::string_view before;
  for (const auto& piece : pieces) {
    StrAppend(&text, before, piece);
    before = separator;
  }
  return text;
}

inline std::string_view StripWhitespace(std::string_view text) {
  return FromAbsl(absl::StripAsciiWhitespace(ToAbsl(text)));
}

inline bool ConsumePrefix(std::string_view* text, std::string_view prefix) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

inline bool ConsumeSuffix(std::string_view* text, std::string_view suffix) {
  if (!text->ends_with(suffix)) return false;
  text->remove_suffix(suffix.size());
  return true;
}

// Unprintable bytes as \xNN, for messages that quote what a caller sent.
inline std::string CEscape(std::string_view text) { return absl::CHexEscape(ToAbsl(text)); }

}  // namespace sandbroker
