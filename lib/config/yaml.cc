// Walks yaml-cpp's nodes against the tables of knobs.h. yaml-cpp throws; nothing leaves this file
// but a Status.
#include "lib/config/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <functional>
#include <optional>
#include <set>
#include <sstream>
#include <vector>

#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "lib/config/knobs.h"

namespace sandbroker::config {
namespace {

class Reader {
 public:
  Reader(std::string_view file, Config* config) : file_(file), config_(*config) {}

  absl::Status Read(const YAML::Node& root) {
    return ReadMap(root, "",
                   [this](const std::string& key, const YAML::Node& value,
                          const YAML::Mark& mark) -> absl::Status {
                     if (key == "templates") {
                       return ReadNamed(value, key, &config_.templates);
                     }
                     if (key == "pools") return ReadNamed(value, key, &config_.pools);
                     if (IsSection(key)) return ReadSection(value, key);
                     return Unknown(mark, key,
                                    "drain, kubernetes, local, log, pools, server, templates");
                   });
  }

 private:
  using OnEntry = std::function<absl::Status(const std::string& key, const YAML::Node& value,
                                             const YAML::Mark& mark)>;

  absl::Status ErrorAt(const YAML::Mark& mark, std::string_view what) const {
    return absl::InvalidArgumentError(StrCat(file_, ":", mark.line + 1, ": ", what));
  }

  absl::Status Unknown(const YAML::Mark& mark, std::string_view path,
                       std::string_view known) const {
    return ErrorAt(mark, StrCat("unknown key ", path, " (known here: ", known, ")"));
  }

  static bool IsSection(std::string_view name) {
    for (const auto& knob : ServerKnobs()) {
      if (knob.section == name) return true;
    }
    return false;
  }

  absl::Status ReadMap(const YAML::Node& node, const std::string& path, const OnEntry& on_entry) {
    if (node.IsNull()) return absl::OkStatus();
    if (!node.IsMap()) {
      return ErrorAt(node.Mark(), StrCat(path.empty() ? "the file" : path, ": not a map"));
    }
    std::set<std::string> seen;
    for (const auto& entry : node) {
      const YAML::Mark mark = entry.first.Mark();
      if (!entry.first.IsScalar()) {
        return ErrorAt(mark, StrCat(path.empty() ? "the file" : path, ": a key is no text"));
      }
      const std::string& key = entry.first.Scalar();
      if (!seen.insert(key).second) {
        return ErrorAt(mark, StrCat(Join(path, key), ": given twice"));
      }
      SANDBROKER_RETURN_IF_ERROR(on_entry(key, entry.second, mark));
    }
    return absl::OkStatus();
  }

  static std::string Join(const std::string& path, const std::string& key) {
    return path.empty() ? key : StrCat(path, ".", key);
  }

  absl::Status ReadScalar(const YAML::Node& node, const YAML::Mark& mark, const std::string& path,
                          std::string* value) const {
    if (!node.IsScalar()) return ErrorAt(mark, StrCat(path, ": needs a single value"));
    *value = node.Scalar();
    if (value->find('\0') != std::string::npos) {
      return ErrorAt(mark, StrCat(path, ": holds a NUL byte"));
    }
    return absl::OkStatus();
  }

  absl::Status ReadSlot(const YAML::Node& node, const YAML::Mark& mark, const std::string& path,
                        Slot slot) const {
    std::string text;
    SANDBROKER_RETURN_IF_ERROR(ReadScalar(node, mark, path, &text));
    const absl::Status set = SetSlot(slot, text);
    return set.ok() ? set : ErrorAt(mark, StrCat(path, ": ", MessageOf(set)));
  }

  // Sets `key` in `owner` if one of `knobs` of that section is named so.
  template <class Owner>
  absl::Status ReadKnob(const YAML::Node& value, const YAML::Mark& mark, const std::string& path,
                        const std::string& key, std::span<const Knob<Owner>> knobs,
                        std::string_view section, std::string_view more, Owner* owner) {
    std::vector<std::string_view> known;
    for (const auto& knob : knobs) {
      if (knob.section != section) continue;
      if (knob.key == key) return ReadSlot(value, mark, Join(path, key), knob.slot(*owner));
      known.push_back(knob.key);
    }
    if (!more.empty()) known.push_back(more);
    return Unknown(mark, Join(path, key), StrJoin(known, ", "));
  }

  absl::Status ReadSection(const YAML::Node& node, const std::string& section) {
    return ReadMap(node, section,
                   [&](const std::string& key, const YAML::Node& value, const YAML::Mark& mark) {
                     return ReadKnob(value, mark, section, key, ServerKnobs(), section, "",
                                     &config_);
                   });
  }

  absl::Status ReadExtra(const YAML::Node& node, const YAML::Mark& mark, const std::string& path,
                         const std::string& key, TemplateConfig* owner) {
    if (key != "env") {
      return ReadKnob(node, mark, path, key, TemplateKnobs(), "", "env", owner);
    }
    const std::string env_path = Join(path, "env");
    owner->env.clear();
    return ReadMap(node, env_path,
                   [&](const std::string& name, const YAML::Node& value, const YAML::Mark& at) {
                     return ReadScalar(value, at, Join(env_path, name), &owner->env[name]);
                   });
  }

  absl::Status ReadExtra(const YAML::Node& node, const YAML::Mark& mark, const std::string& path,
                         const std::string& key, PoolConfig* owner) {
    return ReadKnob(node, mark, path, key, PoolKnobs(), "", "", owner);
  }

  // templates: or pools:, a map of names to maps of keys.
  template <class Owner>
  absl::Status ReadNamed(const YAML::Node& node, const std::string& path,
                         std::map<std::string, Owner>* all) {
    return ReadMap(
        node, path, [&](const std::string& name, const YAML::Node& body, const YAML::Mark&) {
          Owner* owner = &(*all)[name];
          const std::string owner_path = Join(path, name);
          return ReadMap(
              body, owner_path,
              [&](const std::string& key, const YAML::Node& value, const YAML::Mark& mark) {
                return ReadExtra(value, mark, owner_path, key, owner);
              });
        });
  }

  const std::string file_;
  Config& config_;
};

// Hears where documents start; what is in them is of no interest here.
class DocumentStarts final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override { last_ = mark; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
  const YAML::Mark& last() const { return last_; }

 private:
  YAML::Mark last_ = YAML::Mark::null_mark();
};

// Where a second document starts. Not by YAML::LoadAll: at a stray bracket it makes documents
// without end (yaml-cpp 0.7.0), and YAML::Load alone ignores whatever follows the first one.
std::optional<YAML::Mark> SecondDocument(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  DocumentStarts starts;
  if (!parser.HandleNextDocument(starts) || !parser.HandleNextDocument(starts)) return {};
  return starts.last();
}

template <class Owner>
void WriteKnobs(YAML::Emitter& out, std::span<const Knob<Owner>> knobs, std::string_view section,
                Owner& owner) {
  for (const auto& knob : knobs) {
    if (knob.section != section) continue;
    const Slot slot = knob.slot(owner);
    out << YAML::Key << std::string(knob.key) << YAML::Value;
    // Free text is quoted: plain `off` or `1` would be read back differently by other tools.
    if (std::holds_alternative<std::string*>(slot)) out << YAML::DoubleQuoted;
    out << PrintSlot(slot);
  }
}

void WriteTemplate(YAML::Emitter& out, TemplateConfig& settings) {
  out << YAML::BeginMap;
  WriteKnobs(out, TemplateKnobs(), "", settings);
  out << YAML::Key << "env" << YAML::Value << YAML::BeginMap;
  for (const auto& [name, value] : settings.env) {
    out << YAML::Key << name << YAML::Value << YAML::DoubleQuoted << value;
  }
  out << YAML::EndMap << YAML::EndMap;
}

void WritePool(YAML::Emitter& out, PoolConfig& settings) {
  out << YAML::BeginMap;
  WriteKnobs(out, PoolKnobs(), "", settings);
  out << YAML::EndMap;
}

}  // namespace

absl::Status ReadYaml(std::string_view text, std::string_view file, Config* config) {
  if (text.size() > kMaxFileBytes) {
    return absl::InvalidArgumentError(StrCat(file, ": larger than 1 MiB"));
  }
  try {
    const std::optional<YAML::Mark> second = SecondDocument(std::string(text));
    if (second) {
      return absl::InvalidArgumentError(
          StrCat(file, ":", second->line + 1, ": text after the end of the YAML document"));
    }
    return Reader(file, config).Read(YAML::Load(std::string(text)));
  } catch (const YAML::Exception& error) {
    const std::string at = error.mark.is_null() ? "" : StrCat(":", error.mark.line + 1);
    return absl::InvalidArgumentError(StrCat(file, at, ": not valid YAML: ", error.msg));
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(StrCat(file, ": not valid YAML: ", error.what()));
  }
}

std::string WriteYaml(const Config& config) {
  Config copy = config;  // slots point into something that can be changed
  YAML::Emitter out;
  out << YAML::BeginMap;
  for (const std::string_view section : {"server", "log", "drain", "local", "kubernetes"}) {
    out << YAML::Key << std::string(section) << YAML::Value << YAML::BeginMap;
    WriteKnobs(out, ServerKnobs(), section, copy);
    out << YAML::EndMap;
  }
  out << YAML::Key << "templates" << YAML::Value << YAML::BeginMap;
  for (auto& [name, settings] : copy.templates) {
    out << YAML::Key << name << YAML::Value;
    WriteTemplate(out, settings);
  }
  out << YAML::EndMap << YAML::Key << "pools" << YAML::Value << YAML::BeginMap;
  for (auto& [name, settings] : copy.pools) {
    out << YAML::Key << name << YAML::Value;
    WritePool(out, settings);
  }
  out << YAML::EndMap << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

}  // namespace sandbroker::config
