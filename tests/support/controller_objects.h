// Pieces of the objects that a ScriptedController writes.
#pragma once

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string>
#include <utility>

#include "tests/support/object_store.h"

namespace sandbroker::testing {

inline constexpr const char* kOldTime = "2026-01-01T00:00:00Z";
inline constexpr const char* kPoolLabel = "agents.x-k8s.io/warm-pool-sandbox";
inline constexpr const char* kClaimLabel = "agents.x-k8s.io/claim-uid";
inline constexpr const char* kHint = "agents.x-k8s.io/sandbox-name";

inline boost::json::string Text(const std::string& text) {
  return boost::json::string(text.data(), text.size());
}

// A member of a map whose key has dots in it.
inline boost::json::object& Map(boost::json::object& object, const std::string& path) {
  const boost::json::value* there = At(object, path);
  if (there == nullptr || !there->is_object()) SetAt(object, path, boost::json::object());
  return const_cast<boost::json::object&>(At(object, path)->get_object());
}

inline boost::json::object& Annotations(boost::json::object& object) {
  return Map(object, "metadata.annotations");
}
inline boost::json::object& Labels(boost::json::object& object) {
  return Map(object, "metadata.labels");
}

inline std::string LabelOf(const boost::json::object& object, const char* key) {
  const boost::json::value* labels = At(object, "metadata.labels");
  if (labels == nullptr) return "";
  const boost::json::value* value = labels->get_object().if_contains(key);
  return value == nullptr ? "" : std::string(value->as_string().data(), value->as_string().size());
}

inline boost::json::object Condition(const char* type, const char* status,
                                     const std::string& reason, const std::string& message,
                                     const boost::json::object& owner) {
  return {{"type", type},
          {"status", status},
          {"reason", reason},
          {"message", message},
          {"lastTransitionTime", kOldTime},
          {"observedGeneration", *At(owner, "metadata.generation")}};
}

// Puts it in the place of the one of its type.
inline void SetCondition(boost::json::object& object, boost::json::object condition) {
  const boost::json::value* there = At(object, "status.conditions");
  boost::json::array all = there != nullptr ? there->get_array() : boost::json::array();
  const auto it = std::find_if(all.begin(), all.end(), [&](const boost::json::value& one) {
    return one.get_object().at("type") == condition.at("type");
  });
  if (it != all.end()) {
    *it = std::move(condition);
  } else {
    all.push_back(std::move(condition));
  }
  SetAt(object, "status.conditions", std::move(all));
}

inline void DropCondition(boost::json::object& object, const char* type) {
  boost::json::array kept;
  if (const boost::json::value* all = At(object, "status.conditions")) {
    for (const boost::json::value& one : all->get_array()) {
      if (one.get_object().at("type") != type) kept.push_back(one);
    }
  }
  SetAt(object, "status.conditions", std::move(kept));
}

inline boost::json::array Owner(const char* api, const char* kind, const std::string& name,
                                const std::string& uid) {
  return {{{"apiVersion", api},
           {"kind", kind},
           {"name", name},
           {"uid", uid},
           {"controller", true},
           {"blockOwnerDeletion", true}}};
}

inline std::string OwnerUid(const boost::json::object& object) {
  const boost::json::value* owners = At(object, "metadata.ownerReferences");
  if (owners == nullptr || owners->get_array().empty()) return "";
  return TextAt(owners->get_array()[0].get_object(), "uid");
}

}  // namespace sandbroker::testing
