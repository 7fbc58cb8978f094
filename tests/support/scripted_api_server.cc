#include "tests/support/scripted_api_server.h"

#include <openssl/ssl.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <ctime>
#include <deque>
#include <future>
#include <list>
#include <utility>

#include "lib/async/loop.h"
#include "lib/async/task_scope.h"
#include "lib/base/check.h"
#include "lib/base/strings.h"

namespace sandbroker::testing {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
namespace json = boost::json;
using boost::system::error_code;
using Tcp = asio::ip::tcp;
using What = Fault::What;

constexpr auto kBound = std::chrono::seconds(20);

std::string Unescape(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      plain.push_back(
          static_cast<char>(std::stoi(std::string(text.substr(i + 1, 2)), nullptr, 16)));
      i += 2;
    } else {
      plain.push_back(text[i] == '+' ? ' ' : text[i]);
    }
  }
  return plain;
}

// "/apis/g/v/namespaces/s/plural/name?query", also without a namespace.
void ParseTarget(std::string_view target, LoggedRequest* entry, std::string* version) {
  const size_t mark = target.find('?');
  if (mark != std::string_view::npos) {
    for (const std::string_view pair : StrSplit(target.substr(mark + 1), '&')) {
      const size_t equals = std::min(pair.find('='), pair.size());
      const std::string_view value = equals < pair.size() ? pair.substr(equals + 1) : "";
      entry->query[Unescape(pair.substr(0, equals))] = Unescape(value);
    }
    target = target.substr(0, mark);
  }
  std::deque<std::string> parts;
  for (const std::string_view part : StrSplit(target, '/')) {
    if (!part.empty()) parts.push_back(Unescape(part));
  }
  const auto take = [&parts] {
    std::string part = parts.empty() ? "" : parts.front();
    if (!parts.empty()) parts.pop_front();
    return part;
  };
  if (take() == "apis") entry->group = take();
  *version = take();
  if (!parts.empty() && parts.front() == "namespaces") {
    take();
    entry->space = take();
  }
  entry->plural = take();
  entry->name = take();
}

std::string VerbOf(std::string_view method, const LoggedRequest& entry) {
  if (method == "POST") return "create";
  if (method == "PUT") return "update";
  if (method == "PATCH") return "patch";
  if (method == "DELETE") return "delete";
  if (entry.query.count("watch") != 0) return "watch";
  return entry.name.empty() ? "list" : "get";
}

std::string HttpDate(Duration offset) {
  const std::time_t now =
      std::chrono::system_clock::to_time_t(std::chrono::time_point_cast<std::chrono::seconds>(
          std::chrono::system_clock::now() + offset));
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[64];
  std::strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return text;
}

std::string Chunk(std::string_view text) {
  char size[32];
  std::snprintf(size, sizeof(size), "%zx\r\n", text.size());
  return StrCat(size, text, "\r\n");
}

bool Matches(const std::string& wanted, const std::string& found) {
  return wanted.empty() || wanted == found;
}

json::value ParseBody(const std::string& body) {
  error_code error;
  json::value value = json::parse({body.data(), body.size()}, error);
  return error ? json::value() : value;
}

// A connection, of either kind, and what its request waits for.
struct Session {
  Session(asio::io_context& context, asio::ssl::context* tls)
      : plain(tls == nullptr ? std::make_optional<Tcp::socket>(context) : std::nullopt) {
    if (tls != nullptr) secure.emplace(context, *tls);
  }
  Tcp::socket& socket() { return plain ? *plain : secure->next_layer(); }
  void Cut() {
    error_code ignored;
    socket().close(ignored);
    cut = true;
    Wake();
  }
  void Wake() { std::exchange(wake, OneShot<bool>()).Set(true); }

  std::optional<Tcp::socket> plain;
  std::optional<asio::ssl::stream<Tcp::socket>> secure;
  int number = 0;
  bool busy = false;
  bool cut = false;
  OneShot<bool> wake;

  // A watch.
  bool watching = false;
  bool ending = false;
  std::string plural;
  std::string out;  // to be sent before anything else
};
using SessionPtr = std::shared_ptr<Session>;

Task<bool> Send(SessionPtr session, std::string bytes) {
  error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  if (session->plain) {
    co_await asio::async_write(*session->plain, asio::buffer(bytes), token);
  } else {
    co_await asio::async_write(*session->secure, asio::buffer(bytes), token);
  }
  co_return !error;
}

using Parser = http::request_parser<http::string_body>;

Task<bool> Receive(SessionPtr session, boost::beast::flat_buffer* buffer, Parser* parser) {
  error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  if (session->plain) {
    co_await http::async_read(*session->plain, *buffer, *parser, token);
  } else {
    co_await http::async_read(*session->secure, *buffer, *parser, token);
  }
  co_return !error;
}

}  // namespace

class ScriptedApiServer::Impl {
 public:
  explicit Impl(Options options);
  ~Impl();

  // Runs `fn` on the server's thread and answers what it does.
  template <class Fn>
  auto Run(Fn fn) -> decltype(fn()) {
    if (loop.InLoop()) return fn();
    // Shared: the waiting thread may be gone before the call has returned.
    const auto task = std::make_shared<std::packaged_task<decltype(fn())()>>(std::move(fn));
    auto result = task->get_future();
    loop.Post([task] { (*task)(); });
    return result.get();
  }
  bool Await(std::function<bool()> holds);
  void Up();
  void Down();

  struct Held {
    std::shared_ptr<LoggedRequest> entry;
    OneShot<bool> go;
  };
  struct Waiter {
    std::function<bool()> holds;
    std::shared_ptr<std::promise<void>> promise;
  };

  size_t Watches(const std::string& plural) const {
    return static_cast<size_t>(std::count_if(sessions.begin(), sessions.end(), [&](const auto& s) {
      return s->watching && !s->cut && Matches(plural, s->plural);
    }));
  }
  template <class Fn>
  void EachWatch(const std::string& plural, Fn fn) {
    const auto all = sessions;
    for (const SessionPtr& session : all) {
      if (session->watching && Matches(plural, session->plural)) fn(*session);
    }
  }

  Loop loop;
  Options options;
  std::optional<asio::ssl::context> tls;
  std::optional<TaskScope> scope;
  std::optional<Tcp::acceptor> acceptor;
  uint16_t port = 0;
  int generation = 0;  // of the acceptor
  int accepted = 0;
  std::list<SessionPtr> sessions;
  ObjectStore store;
  std::function<void(const ObjectStore::Change&)> hook;
  std::vector<std::shared_ptr<LoggedRequest>> log;
  std::list<Fault> faults;
  std::vector<Held> held;
  std::map<std::string, bool> muted;
  Duration clock_offset{};
  std::list<Waiter> waiters;

 private:
  using EntryPtr = std::shared_ptr<LoggedRequest>;

  Task<void> Accept();
  Task<void> Serve(SessionPtr session);
  Task<bool> Handle(SessionPtr session, EntryPtr entry, kube::Resource resource, bool keep);
  Task<void> Hold(EntryPtr entry);
  Task<void> WaitForCut(SessionPtr session);
  Task<void> Watch(SessionPtr session, EntryPtr entry, kube::Resource resource);
  Task<void> SeeClose(SessionPtr session);
  Task<bool> Reply(SessionPtr session, EntryPtr entry, ObjectStore::Answer answer,
                   std::string retry_after, bool keep);
  ObjectStore::Answer Apply(const LoggedRequest& entry, const kube::Resource& resource);
  std::optional<Fault> TakeFault(const LoggedRequest& entry);
  std::string WatchEvents(const LoggedRequest& entry, const kube::Resource& resource,
                          uint64_t* version, bool* over);
  void Changed();
};

ScriptedApiServer::Impl::Impl(Options o) : options(std::move(o)) {
  if (!options.certificate.empty()) {
    tls.emplace(asio::ssl::context::tls_server);
    tls->use_certificate_chain(asio::buffer(options.certificate));
    tls->use_private_key(asio::buffer(options.key), asio::ssl::context::pem);
    if (!options.client_ca.empty()) {
      tls->add_certificate_authority(asio::buffer(options.client_ca));
      tls->set_verify_mode(asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert);
    }
  }
  store.on_change = [this](const ObjectStore::Change& change) {
    for (const SessionPtr& session : sessions) {
      if (session->watching) session->Wake();
    }
    // Later, so that a request's answer is made before what a controller does about it.
    loop.Post([this, change] {
      if (hook) hook(change);
      Changed();
    });
  };
  loop.Start();
  Run([this] {
    scope.emplace(loop.context(), [](std::string_view name, std::string_view what) {
      std::fprintf(stderr, "scripted API server: %s: %s\n", std::string(name).c_str(),
                   std::string(what).c_str());
    });
    Up();
  });
}

ScriptedApiServer::Impl::~Impl() {
  std::promise<void> joined;
  loop.Post([&] {
    hook = nullptr;
    Down();
    scope->Join([&] { joined.set_value(); });
  });
  SANDBROKER_CHECK(joined.get_future().wait_for(kBound) == std::future_status::ready);
  loop.Stop();
}

void ScriptedApiServer::Impl::Up() {
  acceptor.emplace(loop.context(), Tcp::endpoint(asio::ip::address_v4::loopback(), port));
  port = acceptor->local_endpoint().port();
  scope->Spawn("accept", Accept());
}

void ScriptedApiServer::Impl::Down() {
  error_code ignored;
  ++generation;
  if (acceptor) acceptor->close(ignored);
  const auto all = sessions;
  for (const SessionPtr& session : all) session->Cut();
  for (const Held& one : std::exchange(held, {})) one.go.Set(false);
}

bool ScriptedApiServer::Impl::Await(std::function<bool()> holds) {
  const auto promise = std::make_shared<std::promise<void>>();
  auto reached = promise->get_future();
  Run([&] {
    waiters.push_back({holds, promise});
    Changed();
  });
  const bool ready = reached.wait_for(kBound) == std::future_status::ready;
  Run([&] { waiters.remove_if([&](const Waiter& w) { return w.promise == promise; }); });
  return ready;
}

void ScriptedApiServer::Impl::Changed() {
  waiters.remove_if([](const Waiter& waiter) {
    if (!waiter.holds()) return false;
    waiter.promise->set_value();
    return true;
  });
}

Task<void> ScriptedApiServer::Impl::Accept() {
  const int mine = generation;
  for (;;) {
    const auto session = std::make_shared<Session>(loop.context(), tls ? &*tls : nullptr);
    error_code error;
    auto token = asio::redirect_error(asio::use_awaitable, error);
    co_await acceptor->async_accept(session->socket(), token);
    if (error || mine != generation) co_return;
    session->number = ++accepted;
    sessions.push_back(session);
    scope->Spawn("session", Serve(session));
  }
}

Task<void> ScriptedApiServer::Impl::Serve(SessionPtr session) {
  error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  session->socket().set_option(Tcp::no_delay(true), error);
  if (session->secure)
    co_await session->secure->async_handshake(asio::ssl::stream_base::server, token);
  boost::beast::flat_buffer buffer;
  bool keep = !error;
  while (keep && !session->cut) {
    Parser parser;
    parser.body_limit(64 * 1024 * 1024);
    const bool received = co_await Receive(session, &buffer, &parser);
    if (!received) break;
    session->busy = true;
    const auto& request = parser.get();
    const auto text = [&request](http::field field) {
      return std::string(request[field].data(), request[field].size());
    };
    const auto entry = std::make_shared<LoggedRequest>();
    kube::Resource resource;
    ParseTarget({request.target().data(), request.target().size()}, entry.get(), &resource.version);
    resource.group = entry->group;
    resource.plural = entry->plural;
    entry->verb = VerbOf({request.method_string().data(), request.method_string().size()}, *entry);
    entry->content_type = text(http::field::content_type);
    entry->authorization = text(http::field::authorization);
    entry->body = request.body();
    entry->connection = session->number;
    if (entry->verb == "create") {
      const json::value body = ParseBody(entry->body);
      if (body.is_object()) entry->name = TextAt(body.get_object(), "metadata.name");
    }
    log.push_back(entry);
    Changed();
    keep = co_await Handle(session, entry, resource, request.keep_alive());
    session->busy = false;
  }
  if (!session->cut) session->Cut();
  sessions.remove(session);
  Changed();
}

std::optional<Fault> ScriptedApiServer::Impl::TakeFault(const LoggedRequest& entry) {
  for (auto it = faults.begin(); it != faults.end(); ++it) {
    if (!Matches(it->verb, entry.verb) || !Matches(it->plural, entry.plural) ||
        !Matches(it->name, entry.name)) {
      continue;
    }
    Fault fault = *it;
    if (it->times > 0 && --it->times == 0) faults.erase(it);
    return fault;
  }
  return {};
}

Task<void> ScriptedApiServer::Impl::Hold(EntryPtr entry) {
  Held one{entry, {}};
  held.push_back(one);
  Changed();
  co_await one.go.Wait();
}

Task<void> ScriptedApiServer::Impl::WaitForCut(SessionPtr session) {
  scope->Spawn("see close", SeeClose(session));
  while (!session->cut) {
    const OneShot<bool> wake = session->wake;
    co_await wake.Wait();
  }
}

// The other side's end, while we have nothing to read.
Task<void> ScriptedApiServer::Impl::SeeClose(SessionPtr session) {
  error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  co_await session->socket().async_wait(Tcp::socket::wait_read, token);
  if (!session->cut) session->Cut();
  Changed();
}

// Answers whether the connection goes on.
Task<bool> ScriptedApiServer::Impl::Handle(SessionPtr session, EntryPtr entry,
                                           kube::Resource resource, bool keep) {
  if (!options.token.empty() && entry->authorization != "Bearer " + options.token) {
    ObjectStore::Answer answer{401, StatusBody(401, "Unauthorized", "Unauthorized")};
    co_return co_await Reply(session, entry, std::move(answer), "", keep);
  }
  const std::optional<Fault> fault = TakeFault(*entry);
  if (fault && fault->what == What::kAnswer) {
    ObjectStore::Answer answer{fault->status,
                               StatusBody(fault->status, fault->reason, fault->message)};
    co_return co_await Reply(session, entry, std::move(answer), fault->retry_after, keep);
  }
  if (fault && fault->what == What::kCut) co_return false;
  if (fault && (fault->what == What::kRaw || fault->what == What::kRawSilence)) {
    co_await Send(session, fault->raw);
    if (fault->what == What::kRawSilence) co_await WaitForCut(session);
    co_return false;
  }
  if (fault && fault->what == What::kSilence) {
    co_await WaitForCut(session);
    co_return false;
  }
  if (fault && fault->what == What::kHold) co_await Hold(entry);
  if (entry->verb == "watch") {
    co_await Watch(session, entry, resource);
    co_return false;
  }
  ObjectStore::Answer answer = Apply(*entry, resource);
  if (fault && fault->what == What::kCutAfter) co_return false;
  if (fault && fault->what == What::kSilenceAfter) {
    co_await WaitForCut(session);
    co_return false;
  }
  if (fault && fault->what == What::kHoldAnswer) co_await Hold(entry);
  co_return co_await Reply(session, entry, std::move(answer), "", keep);
}

ObjectStore::Answer ScriptedApiServer::Impl::Apply(const LoggedRequest& entry,
                                                   const kube::Resource& resource) {
  const auto query = [&entry](const char* key) {
    const auto it = entry.query.find(key);
    return it != entry.query.end() ? it->second : std::string();
  };
  if (entry.verb == "get") return store.Get(resource, entry.space, entry.name);
  if (entry.verb == "list") {
    const std::string limit = query("limit");
    return store.List(resource, entry.space, query("labelSelector"),
                      limit.empty() ? 0 : std::stoul(limit), query("continue"));
  }
  const json::value body = ParseBody(entry.body);
  if (entry.verb == "patch" && entry.content_type == "application/json-patch+json") {
    return store.PatchJson(resource, entry.space, entry.name, body);
  }
  if (entry.verb == "patch" && entry.content_type == "application/merge-patch+json") {
    return store.PatchMerge(resource, entry.space, entry.name, body);
  }
  const bool takes =
      body.is_object() && (entry.verb == "delete" || entry.content_type == "application/json");
  if (!takes) {
    return {415, StatusBody(415, "UnsupportedMediaType", "what is this?")};
  }
  if (entry.verb == "create") return store.Create(resource, entry.space, body.get_object());
  if (entry.verb == "update") {
    return store.Replace(resource, entry.space, entry.name, body.get_object());
  }
  return store.Delete(resource, entry.space, entry.name, body.get_object());
}

Task<bool> ScriptedApiServer::Impl::Reply(SessionPtr session, EntryPtr entry,
                                          ObjectStore::Answer answer, std::string retry_after,
                                          bool keep) {
  const std::string body = json::serialize(answer.body);
  std::string text =
      StrCat("HTTP/1.1 ", answer.status,
             " Scripted\r\nContent-Type: ", "application/json\r\nDate: ", HttpDate(clock_offset),
             "\r\nContent-Length: ", body.size(), "\r\n");
  if (!retry_after.empty()) StrAppend(&text, "Retry-After: ", retry_after, "\r\n");
  if (!keep) StrAppend(&text, "Connection: close\r\n");
  StrAppend(&text, "\r\n", body);
  entry->status = answer.status;
  const bool sent = co_await Send(session, std::move(text));
  Changed();
  co_return sent&& keep;
}

std::string ScriptedApiServer::Impl::WatchEvents(const LoggedRequest& entry,
                                                 const kube::Resource& resource, uint64_t* version,
                                                 bool* over) {
  const auto selector = entry.query.find("labelSelector");
  std::string text;
  for (const json::object& event : store.EventsAfter(
           resource, entry.space, selector != entry.query.end() ? selector->second : "", version)) {
    *over = TextAt(event, "type") == "ERROR";
    text += json::serialize(event) + "\n";
  }
  return text;
}

Task<void> ScriptedApiServer::Impl::Watch(SessionPtr session, EntryPtr entry,
                                          kube::Resource resource) {
  const auto number = [&entry](const char* key) {
    const auto it = entry->query.find(key);
    return it != entry->query.end() && !it->second.empty() ? std::stoull(it->second) : 0;
  };
  uint64_t version = number("resourceVersion");
  const uint64_t seconds = number("timeoutSeconds");
  const auto timer = loop.After(std::chrono::seconds(seconds == 0 ? 3600 : seconds), [session] {
    session->ending = true;
    session->Wake();
  });
  session->watching = true;
  session->plural = entry->plural;
  entry->status = 200;
  scope->Spawn("see close", SeeClose(session));
  bool over = false;
  std::string text =
      StrCat("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: ", HttpDate(clock_offset),
             "\r\nTransfer-Encoding: chunked\r\n\r\n");
  if (version == 0) {
    // No version: what there is comes as ADDED.
    std::string all;
    const auto selector = entry->query.find("labelSelector");
    const auto list = store.List(resource, entry->space,
                                 selector != entry->query.end() ? selector->second : "", 0, "");
    for (const json::value& item : list.body.at("items").as_array()) {
      all += json::serialize(json::object{{"type", "ADDED"}, {"object", item}}) + "\n";
    }
    if (!all.empty()) text += Chunk(all);
    version = store.version();
  }
  bool sent = co_await Send(session, std::move(text));
  Changed();
  while (sent && !session->cut && !over) {
    const OneShot<bool> wake = session->wake;
    std::string bytes = std::exchange(session->out, "");
    if (!muted[entry->plural]) {
      const std::string events = WatchEvents(*entry, resource, &version, &over);
      if (!events.empty()) bytes += Chunk(events);
      if (session->ending || over) bytes += "0\r\n\r\n";
      over = over || session->ending;
    }
    if (!bytes.empty()) {
      sent = co_await Send(session, std::move(bytes));
    } else {
      co_await wake.Wait();
    }
  }
  session->watching = false;
}

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

void ScriptedApiServer::CutIdle() {
  impl_->Run([&] {
    const auto all = impl_->sessions;
    for (const SessionPtr& session : all) {
      if (!session->busy) session->Cut();
    }
  });
}

}  // namespace sandbroker::testing
