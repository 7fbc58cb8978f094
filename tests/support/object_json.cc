// Members of objects, and which of them a label selector means.
#include <boost/json/object.hpp>
#include <utility>

#include "lib/base/strings.h"
#include "tests/support/object_store.h"

namespace sandbroker::testing {

namespace json = boost::json;

namespace {

bool HasLabel(const json::object& object, const std::string& key, std::string* value) {
  const json::value* labels = At(object, "metadata.labels");
  if (labels == nullptr || !labels->is_object()) return false;
  const json::value* label = labels->get_object().if_contains(key);
  if (label == nullptr || !label->is_string()) return false;
  *value = std::string(label->get_string().data(), label->get_string().size());
  return true;
}

// Commas inside brackets do not part requirements.
std::vector<std::string> SplitSelector(const std::string& selector) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : selector) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back().push_back(c);
    }
  }
  return parts;
}

bool InSet(const std::string& text, size_t open, const std::string& value) {
  std::string_view inside = std::string_view(text).substr(open + 1);
  ConsumeSuffix(&inside, ")");
  for (const std::string_view one : StrSplit(inside, ',')) {
    if (StripWhitespace(one) == value) return true;
  }
  return false;
}

bool MatchesOne(const json::object& object, const std::string& part) {
  std::string value;
  const auto strip = [](std::string_view text) { return std::string(StripWhitespace(text)); };
  if (const size_t at = part.find(" notin ("); at != std::string::npos) {
    return !HasLabel(object, strip(part.substr(0, at)), &value) || !InSet(part, at + 7, value);
  }
  if (const size_t at = part.find(" in ("); at != std::string::npos) {
    return HasLabel(object, strip(part.substr(0, at)), &value) && InSet(part, at + 4, value);
  }
  if (const size_t at = part.find("!="); at != std::string::npos) {
    return !HasLabel(object, strip(part.substr(0, at)), &value) ||
           value != strip(part.substr(at + 2));
  }
  if (const size_t at = part.find('='); at != std::string::npos) {
    const size_t from = part.compare(at, 2, "==") == 0 ? at + 2 : at + 1;
    return HasLabel(object, strip(part.substr(0, at)), &value) && value == strip(part.substr(from));
  }
  const std::string key = strip(part);
  return key.starts_with('!') ? !HasLabel(object, key.substr(1), &value)
                              : HasLabel(object, key, &value);
}

}  // namespace

json::object StatusBody(int code, const std::string& reason, const std::string& message) {
  return {{"kind", "Status"},    {"apiVersion", "v1"}, {"metadata", json::object()},
          {"status", "Failure"}, {"message", message}, {"reason", reason},
          {"code", code}};
}

const json::value* At(const json::object& object, const std::string& path) {
  const json::object* here = &object;
  const auto parts = StrSplit(path, '.');
  for (size_t i = 0; i < parts.size(); ++i) {
    const json::value* value = here->if_contains({parts[i].data(), parts[i].size()});
    if (value == nullptr || i + 1 == parts.size()) return value;
    if (!value->is_object()) return nullptr;
    here = &value->get_object();
  }
  return nullptr;
}

std::string TextAt(const json::object& object, const std::string& path) {
  const json::value* value = At(object, path);
  if (value == nullptr || !value->is_string()) return "";
  return {value->get_string().data(), value->get_string().size()};
}

void SetAt(json::object& object, const std::string& path, json::value value) {
  json::object* here = &object;
  const auto parts = StrSplit(path, '.');
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    json::value& next = (*here)[json::string_view(parts[i].data(), parts[i].size())];
    if (!next.is_object()) next = json::object();
    here = &next.get_object();
  }
  (*here)[json::string_view(parts.back().data(), parts.back().size())] = std::move(value);
}

bool MatchesSelector(const json::object& object, const std::string& selector) {
  if (selector.empty()) return true;
  for (const std::string& part : SplitSelector(selector)) {
    if (!MatchesOne(object, part)) return false;
  }
  return true;
}

}  // namespace sandbroker::testing
