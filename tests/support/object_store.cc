#include "tests/support/object_store.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <utility>

#include "lib/base/strings.h"
#include "tests/support/json_patch.h"

namespace sandbroker::testing {

namespace json = boost::json;
using Answer = ObjectStore::Answer;

namespace {

std::string Now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string KindOf(const std::string& plural) {
  static const std::map<std::string, std::string> kKinds = {{"sandboxes", "Sandbox"},
                                                            {"sandboxclaims", "SandboxClaim"},
                                                            {"sandboxwarmpools", "SandboxWarmPool"},
                                                            {"sandboxtemplates", "SandboxTemplate"},
                                                            {"pods", "Pod"},
                                                            {"leases", "Lease"},
                                                            {"secrets", "Secret"},
                                                            {"configmaps", "ConfigMap"}};
  const auto it = kKinds.find(plural);
  return it != kKinds.end() ? it->second : "Thing";
}

std::string ApiVersion(const kube::Resource& resource) {
  return resource.group.empty() ? resource.version : StrCat(resource.group, "/", resource.version);
}

Answer Failed(int code, const std::string& reason, const std::string& message) {
  return {code, StatusBody(code, reason, message)};
}

Answer NotFound(const kube::Resource& resource, const std::string& name) {
  return Failed(404, "NotFound", StrCat(resource.plural, " \"", name, "\" not found"));
}

Answer Conflict(const std::string& name, const std::string& why) {
  return Failed(409, "Conflict", StrCat("Operation cannot be fulfilled on \"", name, "\": ", why));
}

Answer Unprocessable(const std::string& why) { return Failed(422, "Invalid", why); }

bool IsName(const std::string& name) {
  if (name.empty() || name.size() > 253) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  });
}

// "2026-01-02T03:04:05Z" with `fraction` digits after a dot, or any number of them for -1.
bool IsTime(const std::string& text, int fraction) {
  if (text.size() < 20 || text[10] != 'T' || text.back() != 'Z') return false;
  const size_t digits = text.size() == 20 ? 0 : text.size() - 21;
  if (digits > 0 && text[19] != '.') return false;
  return fraction < 0 || digits == static_cast<size_t>(fraction);
}

json::object Event(const char* type, const json::object& object) {
  return {{"type", type}, {"object", object}};
}

}  // namespace

ObjectStore::Key ObjectStore::KeyOf(const kube::Resource& resource, const std::string& space,
                                    const std::string& name) {
  return StrCat(resource.group, "/", resource.plural, "/", space, "/", name);
}

// What the schemas of the few kinds in use would refuse.
std::optional<Answer> ObjectStore::Invalid(const kube::Resource& resource,
                                           const json::object& object) const {
  if (!IsName(TextAt(object, "metadata.name")))
    return Unprocessable("metadata.name: Invalid value");
  if (resource.plural == "leases") {
    for (const char* field : {"spec.renewTime", "spec.acquireTime"}) {
      if (At(object, field) != nullptr && !IsTime(TextAt(object, field), 6)) {
        return Failed(400, "BadRequest", StrCat(field, ": no time with microseconds"));
      }
    }
    const json::value* seconds = At(object, "spec.leaseDurationSeconds");
    if (seconds != nullptr && (!seconds->is_int64() || seconds->get_int64() <= 0)) {
      return Unprocessable("spec.leaseDurationSeconds: must be greater than 0");
    }
  }
  if (resource.plural == "sandboxclaims") {
    if (At(object, "spec.warmPoolRef.name") == nullptr) {
      return Unprocessable("spec.warmPoolRef: Required value");
    }
    if (At(object, "spec.lifecycle.shutdownTime") != nullptr &&
        !IsTime(TextAt(object, "spec.lifecycle.shutdownTime"), -1)) {
      return Unprocessable("spec.lifecycle.shutdownTime: Invalid value");
    }
  }
  return {};
}

Answer ObjectStore::Create(const kube::Resource& resource, const std::string& space,
                           json::object object) {
  if (auto invalid = Invalid(resource, object)) return *invalid;
  const std::string name = TextAt(object, "metadata.name");
  const auto it = objects_.find(KeyOf(resource, space, name));
  if (it != objects_.end()) {
    const bool dying = At(it->second, "metadata.deletionTimestamp") != nullptr;
    return Failed(409, "AlreadyExists",
                  StrCat(dying ? "object is being deleted: " : "", resource.plural, " \"", name,
                         "\" already exists"));
  }
  char uid[64];
  std::snprintf(uid, sizeof(uid), "00000000-0000-4000-8000-%012llu",
                static_cast<unsigned long long>(++uids_));
  object["kind"] = KindOf(resource.plural);
  object["apiVersion"] = ApiVersion(resource);
  if (!space.empty()) SetAt(object, "metadata.namespace", json::string(space));
  SetAt(object, "metadata.uid", uid);
  SetAt(object, "metadata.creationTimestamp", json::string(Now()));
  SetAt(object, "metadata.generation", 1);
  Answer stored = Store(resource, space, name, std::move(object));
  stored.status = 201;
  return stored;
}

// Gives the object its new version, unless nothing in it is new.
Answer ObjectStore::Store(const kube::Resource& resource, const std::string& space,
                          const std::string& name, json::object object) {
  const Key key = KeyOf(resource, space, name);
  const auto it = objects_.find(key);
  Change change{resource, space, name, 0, {}, {}};
  if (it != objects_.end()) {
    change.before = it->second;
    SetAt(object, "metadata.resourceVersion", *At(it->second, "metadata.resourceVersion"));
    const json::value* old_spec = it->second.if_contains("spec");
    const json::value* new_spec = object.if_contains("spec");
    const bool same =
        old_spec == nullptr || new_spec == nullptr ? old_spec == new_spec : *old_spec == *new_spec;
    const int64_t generation = At(it->second, "metadata.generation")->get_int64();
    SetAt(object, "metadata.generation", same ? generation : generation + 1);
    if (object == it->second) return {200, std::move(object)};
  }
  change.version = ++version_;
  SetAt(object, "metadata.resourceVersion", json::string(std::to_string(version_)));
  objects_[key] = object;
  change.after = object;
  changes_.push_back(change);
  if (on_change) on_change(change);
  return {200, std::move(object)};
}

Answer ObjectStore::Get(const kube::Resource& resource, const std::string& space,
                        const std::string& name) const {
  const auto it = objects_.find(KeyOf(resource, space, name));
  if (it == objects_.end()) return NotFound(resource, name);
  return {200, it->second};
}

Answer ObjectStore::Replace(const kube::Resource& resource, const std::string& space,
                            const std::string& name, json::object object) {
  const Answer there = Get(resource, space, name);
  if (!there.ok()) return there;
  const std::string version = TextAt(object, "metadata.resourceVersion");
  if (version.empty()) return Unprocessable("metadata.resourceVersion: must be specified");
  if (version != TextAt(there.body, "metadata.resourceVersion")) {
    return Conflict(name, "the object has been modified");
  }
  for (const char* kept :
       {"metadata.uid", "metadata.creationTimestamp", "metadata.namespace", "kind", "apiVersion"}) {
    if (const json::value* value = At(there.body, kept)) SetAt(object, kept, *value);
  }
  if (auto invalid = Invalid(resource, object)) return *invalid;
  return Store(resource, space, name, std::move(object));
}

Answer ObjectStore::PatchJson(const kube::Resource& resource, const std::string& space,
                              const std::string& name, const json::value& operations) {
  Answer there = Get(resource, space, name);
  if (!there.ok()) return there;
  const std::string uid = TextAt(there.body, "metadata.uid");
  json::value patched = std::move(there.body);
  if (!ApplyJsonPatch(operations, &patched) || !patched.is_object()) {
    return Unprocessable("the server rejected our request due to an error in our request");
  }
  if (auto invalid = Invalid(resource, patched.get_object())) return *invalid;
  if (TextAt(patched.get_object(), "metadata.uid") != uid) {
    return Unprocessable("metadata.uid: field is immutable");
  }
  return Store(resource, space, name, std::move(patched.get_object()));
}

Answer ObjectStore::PatchMerge(const kube::Resource& resource, const std::string& space,
                               const std::string& name, const json::value& patch) {
  Answer there = Get(resource, space, name);
  if (!there.ok()) return there;
  const json::object before = there.body;
  json::value patched = std::move(there.body);
  ApplyMergePatch(patch, &patched);
  if (!patched.is_object()) return Failed(400, "BadRequest", "no object");
  const json::object& after = patched.get_object();
  if (auto invalid = Invalid(resource, after)) return *invalid;
  if (TextAt(after, "metadata.uid") != TextAt(before, "metadata.uid")) {
    return Unprocessable("metadata.uid: field is immutable");
  }
  if (TextAt(after, "metadata.resourceVersion") != TextAt(before, "metadata.resourceVersion")) {
    return Conflict(name, "the object has been modified");
  }
  return Store(resource, space, name, std::move(patched.get_object()));
}

Answer ObjectStore::Delete(const kube::Resource& resource, const std::string& space,
                           const std::string& name, const json::object& options) {
  const Answer there = Get(resource, space, name);
  if (!there.ok()) return there;
  for (const char* field : {"uid", "resourceVersion"}) {
    const std::string wanted = TextAt(options, StrCat("preconditions.", field));
    const std::string found = TextAt(there.body, StrCat("metadata.", field));
    if (!wanted.empty() && wanted != found) {
      return Conflict(name, StrCat("Precondition failed: ", field));
    }
  }
  if (TextAt(options, "propagationPolicy") == "Foreground") {
    Update(resource, space, name, [](json::object& object) {
      if (At(object, "metadata.deletionTimestamp") != nullptr) return;
      SetAt(object, "metadata.deletionTimestamp", json::string(Now()));
      SetAt(object, "metadata.finalizers", json::array{"foregroundDeletion"});
    });
    return Get(resource, space, name);
  }
  Remove(resource, space, name);
  return {200,
          {{"kind", "Status"},
           {"apiVersion", "v1"},
           {"status", "Success"},
           {"details", {{"name", name}, {"uid", TextAt(there.body, "metadata.uid")}}}}};
}

Answer ObjectStore::List(const kube::Resource& resource, const std::string& space,
                         const std::string& selector, size_t limit, const std::string& more) const {
  const std::string prefix =
      StrCat(resource.group, "/", resource.plural, "/", space.empty() ? "" : StrCat(space, "/"));
  // The token is the key of the last one sent.
  auto it = more.empty() ? objects_.lower_bound(prefix) : objects_.upper_bound(more);
  const bool own_kind = resource.group.find("x-k8s.io") != std::string::npos;
  json::array items;
  std::string last;
  bool rest = false;
  for (; it != objects_.end() && it->first.starts_with(prefix); ++it) {
    if (!MatchesSelector(it->second, selector)) continue;
    rest = limit > 0 && items.size() == limit;
    if (rest) break;
    json::object item = it->second;
    if (!own_kind) {  // built-in kinds are not named again in a list
      item.erase("kind");
      item.erase("apiVersion");
    }
    items.push_back(std::move(item));
    last = it->first;
  }
  json::object metadata{{"resourceVersion", std::to_string(version_)}};
  if (rest) metadata["continue"] = json::string(last);
  return {200,
          {{"kind", KindOf(resource.plural) + "List"},
           {"apiVersion", ApiVersion(resource)},
           {"metadata", std::move(metadata)},
           {"items", std::move(items)}}};
}

bool ObjectStore::Update(const kube::Resource& resource, const std::string& space,
                         const std::string& name,
                         const std::function<void(json::object&)>& change) {
  const auto it = objects_.find(KeyOf(resource, space, name));
  if (it == objects_.end()) return false;
  json::object object = it->second;
  change(object);
  Store(resource, space, name, std::move(object));
  return true;
}

bool ObjectStore::Remove(const kube::Resource& resource, const std::string& space,
                         const std::string& name) {
  const auto it = objects_.find(KeyOf(resource, space, name));
  if (it == objects_.end()) return false;
  Change change{resource, space, name, ++version_, it->second, {}};
  SetAt(*change.before, "metadata.resourceVersion", json::string(std::to_string(version_)));
  objects_.erase(it);
  changes_.push_back(change);
  if (on_change) on_change(change);
  return true;
}

std::vector<json::object> ObjectStore::EventsAfter(const kube::Resource& resource,
                                                   const std::string& space,
                                                   const std::string& selector,
                                                   uint64_t* version) const {
  if (*version < compacted_) {
    return {Event("ERROR", StatusBody(410, "Expired", "too old resource version"))};
  }
  std::vector<json::object> events;
  for (const Change& change : changes_) {
    if (change.version <= *version || change.resource.plural != resource.plural ||
        change.resource.group != resource.group || (!space.empty() && change.space != space)) {
      continue;
    }
    const bool was = change.before && MatchesSelector(*change.before, selector);
    const bool is = change.after && MatchesSelector(*change.after, selector);
    if (is) {
      events.push_back(Event(was ? "MODIFIED" : "ADDED", *change.after));
    } else if (was) {
      // One that only stopped matching is told in its state before, with the version of the change.
      json::object last = *change.before;
      SetAt(last, "metadata.resourceVersion", json::string(std::to_string(change.version)));
      events.push_back(Event("DELETED", last));
    }
  }
  *version = std::max(*version, version_);
  return events;
}

}  // namespace sandbroker::testing
