#include "tests/support/scripted_api_server.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "lib/base/check.h"
#include "tests/support/scripted_api_impl.h"

namespace sandbroker::testing {

namespace json = boost::json;

ScriptedApiServer::ScriptedApiServer() : ScriptedApiServer(Options()) {}
ScriptedApiServer::ScriptedApiServer(Options options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
ScriptedApiServer::~ScriptedApiServer() = default;

uint16_t ScriptedApiServer::port() const { return impl_->port; }

kube::Access ScriptedApiServer::access() const {
  kube::Access access;
  access.tls = impl_->tls.has_value();
  access.host = "127.0.0.1";
  access.port = impl_->port;
  access.ca = impl_->options.certificate;
  access.token = impl_->options.token;
  return access;
}

json::object ScriptedApiServer::Add(const kube::Resource& resource, const std::string& space,
                                    json::object object) {
  return impl_->Run([&] {
    auto answer = impl_->store.Create(resource, space, std::move(object));
    SANDBROKER_CHECK(answer.ok());
    return std::move(answer.body);
  });
}

std::optional<json::object> ScriptedApiServer::Find(const kube::Resource& resource,
                                                    const std::string& space,
                                                    const std::string& name) const {
  return impl_->Run([&]() -> std::optional<json::object> {
    auto answer = impl_->store.Get(resource, space, name);
    if (!answer.ok()) return {};
    return std::move(answer.body);
  });
}

std::vector<json::object> ScriptedApiServer::All(const kube::Resource& resource,
                                                 const std::string& space) const {
  return impl_->Run([&] {
    std::vector<json::object> all;
    const auto answer = impl_->store.List(resource, space, "", 0, "");
    for (const json::value& item : answer.body.at("items").as_array()) {
      all.push_back(item.as_object());
    }
    return all;
  });
}

bool ScriptedApiServer::Update(const kube::Resource& resource, const std::string& space,
                               const std::string& name,
                               const std::function<void(json::object&)>& change) {
  return impl_->Run([&] { return impl_->store.Update(resource, space, name, change); });
}

bool ScriptedApiServer::Remove(const kube::Resource& resource, const std::string& space,
                               const std::string& name) {
  return impl_->Run([&] { return impl_->store.Remove(resource, space, name); });
}

void ScriptedApiServer::WithStore(const std::function<void(ObjectStore&)>& work) const {
  impl_->Run([&] { work(impl_->store); });
}

void ScriptedApiServer::OnChange(std::function<void(const ObjectStore::Change&)> hook) {
  impl_->Run([&] { impl_->hook = std::move(hook); });
}

bool ScriptedApiServer::Await(std::function<bool()> holds) const {
  return impl_->Await(std::move(holds));
}

std::vector<LoggedRequest> ScriptedApiServer::log() const {
  return impl_->Run([&] {
    std::vector<LoggedRequest> copy;
    for (const auto& entry : impl_->log) copy.push_back(*entry);
    return copy;
  });
}

void ScriptedApiServer::ClearLog() {
  impl_->Run([&] { impl_->log.clear(); });
}

size_t ScriptedApiServer::Count(const std::string& verb, const std::string& plural) const {
  return impl_->Run([&] {
    return static_cast<size_t>(
        std::count_if(impl_->log.begin(), impl_->log.end(), [&](const auto& entry) {
          return Matches(verb, entry->verb) && Matches(plural, entry->plural);
        }));
  });
}

size_t ScriptedApiServer::CountWrites() const {
  return Count("create") + Count("update") + Count("patch") + Count("delete");
}

bool ScriptedApiServer::AwaitCount(const std::string& verb, const std::string& plural,
                                   size_t count) const {
  return impl_->Await([&] { return Count(verb, plural) >= count; });
}

int ScriptedApiServer::connections() const {
  return impl_->Run([&] { return impl_->accepted; });
}

size_t ScriptedApiServer::open_connections() const {
  return impl_->Run([&] { return impl_->sessions.size(); });
}

void ScriptedApiServer::Script(Fault fault) {
  impl_->Run([&] { impl_->faults.push_back(std::move(fault)); });
}

void ScriptedApiServer::ClearFaults() {
  impl_->Run([&] { impl_->faults.clear(); });
}

std::vector<LoggedRequest> ScriptedApiServer::held() const {
  return impl_->Run([&] {
    std::vector<LoggedRequest> copy;
    for (const auto& one : impl_->held) copy.push_back(*one.entry);
    return copy;
  });
}

bool ScriptedApiServer::AwaitHeld(size_t count) const {
  return impl_->Await([&] { return impl_->held.size() >= count; });
}

bool ScriptedApiServer::Release(size_t index) {
  return impl_->Run([&] {
    if (index >= impl_->held.size()) return false;
    const auto go = impl_->held[index].go;
    impl_->held.erase(impl_->held.begin() + static_cast<std::ptrdiff_t>(index));
    go.Set(true);
    return true;
  });
}

void ScriptedApiServer::SetToken(const std::string& token) {
  impl_->Run([&] { impl_->options.token = token; });
}

void ScriptedApiServer::SetClockOffset(Duration offset) {
  impl_->Run([&] { impl_->clock_offset = offset; });
}

size_t ScriptedApiServer::watches(const std::string& plural) const {
  return impl_->Run([&] { return impl_->Watches(plural); });
}

bool ScriptedApiServer::AwaitWatches(const std::string& plural, size_t count) const {
  return impl_->Await([&] { return impl_->Watches(plural) == count; });
}

void ScriptedApiServer::CutWatches(const std::string& plural) {
  impl_->Run([&] { impl_->EachWatch(plural, [](Session& session) { session.Cut(); }); });
}

void ScriptedApiServer::EndWatches(const std::string& plural) {
  impl_->Run([&] {
    impl_->EachWatch(plural, [](Session& session) {
      session.ending = true;
      session.Wake();
    });
  });
}

void ScriptedApiServer::SendBookmarks(const std::string& plural) {
  impl_->Run([&] {
    const std::string version = std::to_string(impl_->store.version());
    const json::object bookmark{{"type", "BOOKMARK"},
                                {"object", {{"metadata", {{"resourceVersion", version}}}}}};
    const std::string text = json::serialize(bookmark) + "\n";
    impl_->EachWatch(plural, [&](Session& session) {
      session.out += Chunk(text);
      session.Wake();
    });
  });
}

void ScriptedApiServer::SendOnWatches(const std::string& plural, const std::string& bytes) {
  impl_->Run([&] {
    impl_->EachWatch(plural, [&](Session& session) {
      session.out += Chunk(bytes);
      session.Wake();
    });
  });
}

void ScriptedApiServer::MuteWatches(const std::string& plural, bool mute) {
  impl_->Run([&] {
    impl_->muted[plural] = mute;
    impl_->EachWatch(plural, [](Session& session) { session.Wake(); });
  });
}

void ScriptedApiServer::Compact() {
  impl_->Run([&] { impl_->store.Compact(); });
}

void ScriptedApiServer::Down() {
  impl_->Run([&] { impl_->Down(); });
}

void ScriptedApiServer::Up() {
  impl_->Run([&] { impl_->Up(); });
}

bool ScriptedApiServer::CutIdle() {
  const auto idle = [this] {
    return std::any_of(impl_->sessions.begin(), impl_->sessions.end(),
                       [](const SessionPtr& session) { return !session->busy; });
  };
  if (!impl_->Await(idle)) return false;
  impl_->Run([&] {
    const auto all = impl_->sessions;
    for (const SessionPtr& session : all) {
      if (!session->busy) session->Cut();
    }
  });
  return true;
}

}  // namespace sandbroker::testing
