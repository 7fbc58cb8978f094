#include "lib/kube/url.h"

#include "lib/base/strings.h"

namespace sandbroker::kube {
namespace {

bool IsAlnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

}  // namespace

std::string EscapeUrl(std::string_view text) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string escaped;
  for (const char c : text) {
    if (IsAlnum(c) || c == '-' || c == '.' || c == '_' || c == '~') {
      escaped.push_back(c);
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    escaped.push_back('%');
    escaped.push_back(kHex[byte >> 4]);
    escaped.push_back(kHex[byte & 15]);
  }
  return escaped;
}

std::string ResourcePath(const Resource& resource, std::string_view space, std::string_view name) {
  std::string path =
      resource.group.empty() ? "/api/" : StrCat("/apis/", EscapeUrl(resource.group), "/");
  path += EscapeUrl(resource.version);
  if (!space.empty()) StrAppend(&path, "/namespaces/", EscapeUrl(space));
  StrAppend(&path, "/", EscapeUrl(resource.plural));
  if (!name.empty()) StrAppend(&path, "/", EscapeUrl(name));
  return path;
}

void AddQuery(std::string* target, std::string_view key, std::string_view value) {
  StrAppend(target, target->find('?') == std::string::npos ? "?" : "&", EscapeUrl(key), "=",
            EscapeUrl(value));
}

bool IsPathName(std::string_view name) {
  if (name.empty() || name.size() > 253 || name == "." || name == "..") return false;
  for (const char c : name) {
    if (!IsAlnum(c) && c != '-' && c != '.' && c != ':' && c != '_') return false;
  }
  return true;
}

}  // namespace sandbroker::kube
