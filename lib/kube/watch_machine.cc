#include "lib/kube/watch_machine.h"

#include <algorithm>
#include <set>
#include <utility>

#include "lib/base/strings.h"

namespace sandbroker::kube {
namespace {

namespace json = boost::json;

// A watch that ends sooner than this is not opened again without a pause, however politely it
// ended.
constexpr Duration kShortWatch = std::chrono::seconds(1);

const json::object* ObjectOf(const json::object& object, const char* key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_object() ? &value->get_object() : nullptr;
}

std::string TextOf(const json::object* object, const char* key) {
  const json::value* value = object != nullptr ? object->if_contains(key) : nullptr;
  if (value == nullptr || !value->is_string()) return "";
  return {value->get_string().data(), value->get_string().size()};
}

std::string MetadataText(const json::object& object, const char* key) {
  return TextOf(ObjectOf(object, "metadata"), key);
}

// Empty for what is no object of the API.
std::string KeyOf(const json::object& object) {
  const std::string name = MetadataText(object, "name");
  return name.empty() ? "" : StrCat(MetadataText(object, "namespace"), "/", name);
}

std::string Say(const Result& result) {
  if (result.http_status == 0) return result.message;
  return StrCat("HTTP status ", result.http_status, ": ", result.message);
}

}  // namespace

WatchMachine::WatchMachine(WatchSettings settings, std::function<double()> random)
    : settings_(settings), random_(std::move(random)) {}

WatchMachine::Action WatchMachine::Next() {
  if (delay_) {
    const Duration delay = *std::exchange(delay_, std::nullopt);
    return {Action::Kind::kWait, "", delay};
  }
  if (version_.empty()) return {Action::Kind::kList};
  return {Action::Kind::kWatch, version_};
}

void WatchMachine::Fail(std::optional<Duration> retry_after) {
  Duration delay = settings_.first_delay;
  for (int i = 0; i < failures_ && delay < settings_.max_delay; ++i) delay *= 2;
  ++failures_;
  delay = std::min(delay, settings_.max_delay);
  delay = std::chrono::duration_cast<Duration>(delay * (0.5 + random_() / 2));
  delay_ = delay + retry_after.value_or(Duration(0));
}

void WatchMachine::Stale(const std::string& why, std::vector<News>* news) {
  if (stale_) return;
  stale_ = true;
  news->push_back({News::Kind::kStale, {}, why});
}

void WatchMachine::Fresh(std::vector<News>* news) {
  if (synced_ && !stale_) return;
  synced_ = true;
  stale_ = false;
  news->push_back({News::Kind::kSynced});
}

// What is kept of an object is what its observer may ask for: who changed which field is a third
// of it and no use to anybody here.
void WatchMachine::Take(json::object object, std::vector<News>* news) {
  const std::string key = KeyOf(object);
  if (key.empty()) return;
  if (json::value* metadata = object.if_contains("metadata")) {
    metadata->get_object().erase("managedFields");
  }
  if (!object.contains("kind") && !kind_.empty()) object["kind"] = kind_;
  if (!object.contains("apiVersion") && !api_version_.empty()) object["apiVersion"] = api_version_;
  const std::string uid = MetadataText(object, "uid");
  const std::string version = MetadataText(object, "resourceVersion");
  const auto it = objects_.find(key);
  if (it != objects_.end()) {
    if (it->second.uid == uid && it->second.version == version) return;
    // Another one of the same name: the old one is gone, though nobody said so.
    if (it->second.uid != uid) Drop(key, news);
  }
  objects_[key] = {uid, version, object};
  news->push_back({News::Kind::kObject, std::move(object)});
}

void WatchMachine::Drop(const std::string& key, std::vector<News>* news) {
  const auto it = objects_.find(key);
  if (it == objects_.end()) return;
  json::object last = std::move(it->second.object);
  objects_.erase(it);
  news->push_back({News::Kind::kDeleted, std::move(last)});
}

std::vector<WatchMachine::News> WatchMachine::OnList(const Result& result) {
  std::vector<News> news;
  const std::string version = result.ok() ? MetadataText(result.object, "resourceVersion") : "";
  const json::value* items = result.object.if_contains("items");
  if (version.empty() || items == nullptr || !items->is_array()) {
    Stale(StrCat("list: ", result.ok() ? "it is none" : Say(result)), &news);
    Fail(result.retry_after);
    return news;
  }
  kind_ = TextOf(&result.object, "kind");
  std::string_view kind = kind_;
  kind_ = ConsumeSuffix(&kind, "List") ? std::string(kind) : "";
  api_version_ = TextOf(&result.object, "apiVersion");
  std::set<std::string> present;
  for (const json::value& item : items->get_array()) {
    if (item.is_object()) present.insert(KeyOf(item.get_object()));
  }
  std::vector<std::string> vanished;
  for (const auto& [key, known] : objects_) {
    if (present.count(key) == 0) vanished.push_back(key);
  }
  for (const std::string& key : vanished) Drop(key, &news);
  for (const json::value& item : items->get_array()) {
    if (item.is_object()) Take(item.get_object(), &news);
  }
  version_ = version;
  failures_ = 0;
  Fresh(&news);
  return news;
}

std::vector<WatchMachine::News> WatchMachine::OnWatch(const Result& result, Time now) {
  std::vector<News> news;
  opened_ = now;
  heard_ = false;
  if (result.ok()) {
    Fresh(&news);
    return news;
  }
  if (result.Is(410)) {
    Expired(result.message, &news);
    return news;
  }
  Stale(StrCat("watch: ", Say(result)), &news);
  Fail(result.retry_after);
  return news;
}

// The version we went on from is gone, which happens: a list tells where we stand. Again before
// anything was heard in between, it is a failure like others.
void WatchMachine::Expired(const std::string& why, std::vector<News>* news) {
  version_.clear();
  if (++breaks_ == 1) return;
  Stale(StrCat("watch: ", why), news);
  Fail({});
}

std::vector<WatchMachine::News> WatchMachine::OnErrorEvent(const json::object& event) {
  std::vector<News> news;
  const json::object* status = ObjectOf(event, "object");
  const json::value* code = status != nullptr ? status->if_contains("code") : nullptr;
  const std::string why = TextOf(status, "message");
  if (code != nullptr && code->is_int64() && code->get_int64() == 410) {
    Expired(why, &news);
    return news;
  }
  version_.clear();
  Stale(StrCat("watch: ", why), &news);
  Fail({});
  return news;
}

std::vector<WatchMachine::News> WatchMachine::OnEvent(json::object event, bool* over) {
  *over = false;
  const std::string type = TextOf(&event, "type");
  if (type == "ERROR") {
    *over = true;
    return OnErrorEvent(event);
  }
  std::vector<News> news;
  json::value* value = event.if_contains("object");
  const std::string version = value != nullptr && value->is_object()
                                  ? MetadataText(value->get_object(), "resourceVersion")
                                  : "";
  const bool known = type == "ADDED" || type == "MODIFIED" || type == "DELETED";
  if (version.empty() || (known && KeyOf(value->get_object()).empty())) {
    // No event of the API: what was missed can't be told.
    *over = true;
    version_.clear();
    Stale("watch: an event that can't be understood", &news);
    Fail({});
    return news;
  }
  heard_ = true;
  breaks_ = 0;
  failures_ = 0;
  version_ = version;
  if (type == "DELETED") {
    // Its last state comes with it. One we do not know, or another of its name, is no news.
    const std::string key = KeyOf(value->get_object());
    const auto it = objects_.find(key);
    if (it == objects_.end() || it->second.uid != MetadataText(value->get_object(), "uid")) {
      return news;
    }
    value->get_object()["metadata"].get_object().erase("managedFields");
    it->second.object = std::move(value->get_object());
    Drop(key, &news);
  } else if (known) {
    Take(std::move(value->get_object()), &news);
  }
  return news;
}

std::vector<WatchMachine::News> WatchMachine::OnWatchEnd(End end, const std::string& why,
                                                         Time now) {
  std::vector<News> news;
  if (end == End::kSilent) Stale("watch: silent", &news);
  if (now - opened_ >= kShortWatch) {
    // Once more at once; if that fails too, the view is stale.
    failures_ = 0;
    breaks_ = 0;
    return news;
  }
  if (end == End::kCut && !heard_) Stale(StrCat("watch: ", why), &news);
  Fail({});
  return news;
}

}  // namespace sandbroker::kube
