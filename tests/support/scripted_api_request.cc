// What a request of the Kubernetes API asks for.
#include <algorithm>
#include <cstdio>
#include <deque>

#include "lib/base/strings.h"
#include "tests/support/scripted_api_impl.h"

namespace sandbroker::testing {
namespace {

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

}  // namespace

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

std::string Chunk(std::string_view text) {
  char size[32];
  std::snprintf(size, sizeof(size), "%zx\r\n", text.size());
  return StrCat(size, text, "\r\n");
}

}  // namespace sandbroker::testing
