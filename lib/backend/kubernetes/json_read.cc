#include "lib/backend/kubernetes/json_read.h"

#include <algorithm>

#include "lib/base/strings.h"

namespace sandbroker::kubernetes {
namespace {

namespace json = boost::json;

const json::object kNoObject;
const json::array kNoArray;

const json::string* StringAt(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(ToJson(key));
  return value == nullptr ? nullptr : value->if_string();
}

}  // namespace

const json::object& AsObject(const json::value& value) {
  const json::object* object = value.if_object();
  return object == nullptr ? kNoObject : *object;
}

const json::object& ObjectAt(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(ToJson(key));
  return value == nullptr ? kNoObject : AsObject(*value);
}

const json::array& ArrayAt(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(ToJson(key));
  const json::array* array = value == nullptr ? nullptr : value->if_array();
  return array == nullptr ? kNoArray : *array;
}

std::string NameAt(const json::object& object, std::string_view key, size_t limit) {
  const json::string* text = StringAt(object, key);
  if (text == nullptr || text->size() > limit) return "";
  return {text->data(), text->size()};
}

// Unlike CEscape it leaves the quotes that controllers like to use.
std::string Printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  for (const char c : text) {
    const bool plain = c >= ' ' && c <= '~';
    plain ? shown.append(1, c) : shown.append(CEscape({&c, 1}));
  }
  return shown;
}

std::string WordsAt(const json::object& object, std::string_view key) {
  const json::string* text = StringAt(object, key);
  if (text == nullptr) return "";
  return Printable({text->data(), std::min(text->size(), kMaxWords)});
}

int64_t NumberAt(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(ToJson(key));
  const int64_t* number = value == nullptr ? nullptr : value->if_int64();
  return number == nullptr ? 0 : *number;
}

bool FlagAt(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(ToJson(key));
  const bool* flag = value == nullptr ? nullptr : value->if_bool();
  return flag != nullptr && *flag;
}

bool HasText(const json::object& object, std::string_view key) {
  const json::string* text = StringAt(object, key);
  return text != nullptr && !text->empty();
}

}  // namespace sandbroker::kubernetes
