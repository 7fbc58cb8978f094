#include "lib/backend/kubernetes/names.h"

#include "lib/base/crypto.h"

namespace sandbroker::kubernetes {
namespace {

constexpr size_t kRandomChars = 20;
constexpr size_t kMaxLabel = 63;
constexpr int kTries = 8;

bool IsAlnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

std::string RandomName() {
  constexpr std::string_view kAlphabet = "abcdefghijklmnopqrstuvwxyz234567";
  std::string name = "sb-";
  for (const char byte : RandomBytes(kRandomChars)) {
    name += kAlphabet[static_cast<unsigned char>(byte) % kAlphabet.size()];
  }
  return name;
}

}  // namespace

uint32_t NameHash(std::string_view name) {
  uint32_t hash = 2166136261u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

std::string NewClaimName(const std::function<bool(uint32_t hash)>& taken) {
  std::string name = RandomName();
  for (int i = 1; i < kTries && taken(NameHash(name)); ++i) name = RandomName();
  return name;
}

std::string LabelOfReceipt(std::string_view key) { return std::string(key.substr(0, kMaxLabel)); }

bool IsLabelValue(std::string_view text) {
  if (text.empty()) return true;
  if (text.size() > kMaxLabel || !IsAlnum(text.front()) || !IsAlnum(text.back())) return false;
  for (const char c : text) {
    if (!IsAlnum(c) && c != '-' && c != '_' && c != '.') return false;
  }
  return true;
}

}  // namespace sandbroker::kubernetes
