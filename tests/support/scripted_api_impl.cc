#include "tests/support/scripted_api_impl.h"

#include <openssl/ssl.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/redirect_error.hpp>
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
#include <utility>

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

json::value ParseBody(const std::string& body) {
  error_code error;
  json::value value = json::parse({body.data(), body.size()}, error);
  return error ? json::value() : value;
}

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
    Changed();
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

}  // namespace sandbroker::testing
