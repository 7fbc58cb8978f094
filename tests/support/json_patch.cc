#include "tests/support/json_patch.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <charconv>
#include <optional>
#include <string>
#include <vector>

namespace sandbroker::testing {
namespace {

namespace json = boost::json;

// "/a~1b/c" -> {"a/b", "c"}.
std::optional<std::vector<std::string>> ParsePointer(std::string_view text) {
  std::vector<std::string> parts;
  if (text.empty()) return parts;
  if (text[0] != '/') return {};
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '/') {
      parts.emplace_back();
    } else if (text[i] == '~') {
      if (++i == text.size() || (text[i] != '0' && text[i] != '1')) return {};
      parts.back().push_back(text[i] == '0' ? '~' : '/');
    } else {
      parts.back().push_back(text[i]);
    }
  }
  return parts;
}

std::optional<size_t> Index(const std::string& text, size_t size) {
  size_t index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (error != std::errc() || end != text.data() + text.size() || index >= size) return {};
  return index;
}

json::value* Child(json::value* parent, const std::string& key) {
  if (parent->is_object()) return parent->get_object().if_contains(key);
  if (!parent->is_array()) return nullptr;
  const auto index = Index(key, parent->get_array().size());
  return index ? &parent->get_array()[*index] : nullptr;
}

bool Add(json::value* parent, const std::string& key, const json::value& value) {
  if (parent->is_object()) {
    parent->get_object()[key] = value;
    return true;
  }
  if (!parent->is_array()) return false;
  json::array& array = parent->get_array();
  const auto index = key == "-" ? array.size() : Index(key, array.size() + 1);
  if (!index) return false;
  array.insert(array.begin() + static_cast<std::ptrdiff_t>(*index), value);
  return true;
}

bool Remove(json::value* parent, const std::string& key) {
  if (parent->is_object()) return parent->get_object().erase(key) == 1;
  if (!parent->is_array()) return false;
  json::array& array = parent->get_array();
  const auto index = Index(key, array.size());
  if (!index) return false;
  array.erase(array.begin() + static_cast<std::ptrdiff_t>(*index));
  return true;
}

bool ApplyOne(const json::object& operation, json::value* target) {
  const json::value* op = operation.if_contains("op");
  const json::value* path = operation.if_contains("path");
  const json::value* value = operation.if_contains("value");
  if (op == nullptr || !op->is_string() || path == nullptr || !path->is_string()) return false;
  const auto parts = ParsePointer({path->get_string().data(), path->get_string().size()});
  if (!parts || parts->empty()) return false;
  json::value* parent = target;
  for (size_t i = 0; i + 1 < parts->size(); ++i) {
    parent = Child(parent, (*parts)[i]);
    if (parent == nullptr) return false;
  }
  const std::string& key = parts->back();
  if (op->get_string() == "remove") return Remove(parent, key);
  if (value == nullptr) return false;
  if (op->get_string() == "add") return Add(parent, key, *value);
  json::value* there = Child(parent, key);
  if (there == nullptr) return false;
  if (op->get_string() == "test") return *there == *value;
  if (op->get_string() != "replace") return false;
  *there = *value;
  return true;
}

}  // namespace

bool ApplyJsonPatch(const json::value& operations, json::value* target) {
  if (!operations.is_array()) return false;
  for (const json::value& operation : operations.get_array()) {
    if (!operation.is_object() || !ApplyOne(operation.get_object(), target)) return false;
  }
  return true;
}

void ApplyMergePatch(const json::value& patch, json::value* target) {
  if (!patch.is_object()) {
    *target = patch;
    return;
  }
  if (!target->is_object()) *target = json::object();
  for (const auto& member : patch.get_object()) {
    if (member.value().is_null()) {
      target->get_object().erase(member.key());
    } else {
      ApplyMergePatch(member.value(), &target->get_object()[member.key()]);
    }
  }
}

}  // namespace sandbroker::testing
