// The bytes of a watch: however they are cut, the same lines come out, none longer than allowed;
// and whatever the lines say, the machine goes on from some version and tells a consistent story.
#include <boost/json/parse.hpp>
#include <set>

#include "lib/base/check.h"
#include "lib/kube/watch_lines.h"
#include "lib/kube/watch_machine.h"
#include "tests/fuzz/fuzz.h"

namespace sandbroker::fuzz {
namespace {

using kube::WatchMachine;

std::vector<std::string> Split(std::string_view text, size_t piece) {
  kube::LineSplitter splitter(256);
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size(); at += piece) {
    if (!splitter.Feed(text.substr(at, piece))) break;
    while (auto line = splitter.Next()) lines.push_back(*std::move(line));
  }
  return lines;
}

void Tell(const std::vector<WatchMachine::News>& news, std::set<std::string>* there) {
  for (const auto& one : news) {
    if (one.kind != WatchMachine::News::Kind::kObject &&
        one.kind != WatchMachine::News::Kind::kDeleted) {
      continue;
    }
    const auto& metadata = one.object.at("metadata").as_object();
    const auto* space = metadata.if_contains("namespace");
    std::string key = space != nullptr && space->is_string() ? space->as_string().c_str() : "";
    key += "/";
    key += metadata.at("name").as_string().c_str();
    // Nobody goes who did not come.
    if (one.kind == WatchMachine::News::Kind::kDeleted) {
      SANDBROKER_CHECK(there->erase(key) == 1);
    } else {
      there->insert(key);
    }
  }
}

}  // namespace

std::vector<std::string> Seeds() {
  return {
      R"({"type":"ADDED","object":{"metadata":{"name":"a","uid":"1","resourceVersion":"5"}}})"
      "\n"
      R"({"type":"DELETED","object":{"metadata":{"name":"a","uid":"1","resourceVersion":"6"}}})"
      "\n",
      R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}})"
      "\r\n\n",
      R"({"type":"ERROR","object":{"code":410,"message":"gone"}})"
      "\n",
  };
}

}  // namespace sandbroker::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sandbroker;
  using namespace sandbroker::fuzz;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto lines = Split(text, 1);
  const auto other = Split(text, 7);
  // Only where a line is too long may one cut see more of what is before it than another.
  const size_t common = std::min(lines.size(), other.size());
  for (size_t i = 0; i < common; ++i) SANDBROKER_CHECK(lines[i] == other[i]);
  WatchMachine machine(kube::WatchSettings(), [] { return 0.5; });
  kube::Result list;
  list.outcome = kube::Outcome::kDone;
  list.object = {{"metadata", {{"resourceVersion", "1"}}}, {"items", boost::json::array()}};
  std::set<std::string> there;
  machine.OnList(list);
  machine.OnWatch(list, Time());
  for (const std::string& line : lines) {
    SANDBROKER_CHECK(!line.empty() && line.size() <= 256);
    boost::system::error_code error;
    auto value = boost::json::parse({line.data(), line.size()}, error);
    if (error || !value.is_object()) continue;
    bool over = false;
    Tell(machine.OnEvent(std::move(value.get_object()), &over), &there);
    SANDBROKER_CHECK(machine.objects() == there.size());
    machine.Next();
  }
  return 0;
}
