#include "tests/model/start_model.h"

#include <algorithm>

#include "lib/base/status.h"
#include "lib/base/strings.h"

namespace sandbroker::model {
namespace {

using std::chrono::seconds;

constexpr int kRetention = 1;
constexpr int kTombstone = 3;
constexpr size_t kMaxKnown = 2;
constexpr size_t kMaxTombstones = 1;

std::string IdOf(int id) { return StrCat("e", id); }
std::string BootOf(int boot) { return StrCat("b", boot); }
std::string SpecOf(bool other) { return other ? "other" : "spec"; }

// As it travels: in the caller's handle, through whichever replica.
std::string BootInHandle(int boot) {
  static const std::string kKey(32, 'k');
  static std::vector<std::string> handles;  // their MACs take time
  while (handles.size() <= static_cast<size_t>(boot)) {
    const int next = static_cast<int>(handles.size());
    handles.push_back(
        broker::EncodeHandle({"tenant", 't', "local", "pool", "uid", BootOf(next)}, kKey));
  }
  static std::vector<std::string> boots;
  while (boots.size() < handles.size()) {
    boots.push_back(broker::DecodeHandle(handles[boots.size()], kKey)->incarnation);
  }
  return boots[static_cast<size_t>(boot)];
}

}  // namespace

StartModel::StartModel(const StartBounds& bounds, StartRule off)
    : bounds_(bounds), off_(off), first_boot_(static_cast<size_t>(bounds.ids)) {
  limits_.max_executions = kMaxKnown;
  limits_.max_tombstones = Off(StartRule::kFullRefusesNewOnes) ? 1000 : kMaxTombstones;
  limits_.tombstone_life = seconds(Off(StartRule::kTombstoneLastsItsTime) ? 1 : kTombstone);
  limits_.retention = seconds(Off(StartRule::kOutputIsKept) ? 0 : kRetention);
  table_.emplace(BootOf(boot_), limits_);
  used_ = {0, 0, 0, 0, 0, 0, 0};
}

void StartModel::Break(const std::string& what) {
  if (violation_.empty()) violation_ = what;
}

StartModel::RunOf* StartModel::Live(int id) {
  for (RunOf& run : runs_) {
    if (run.id == id && run.boot == boot_ && !run.dropped) return &run;
  }
  return nullptr;
}

std::vector<StartModel::Action> StartModel::Actions() const {
  std::vector<Action> actions;
  const auto add = [&](Action::Kind kind, size_t who = 0) {
    actions.push_back({kind, static_cast<uint8_t>(who)});
  };
  for (int id = 0; id < bounds_.ids; ++id) {
    if (used_.sends < bounds_.sends && under_way_.size() < 3)
      add(Action::kSend, static_cast<size_t>(id));
    const bool known = first_boot_[static_cast<size_t>(id)].has_value();
    if (known && *first_boot_[static_cast<size_t>(id)] != boot_) {
      add(Action::kRefresh, static_cast<size_t>(id));
    }
    if (known && used_.others < bounds_.others) add(Action::kSendOther, static_cast<size_t>(id));
  }
  for (size_t i = 0; i < under_way_.size(); ++i) {
    add(Action::kDeliver, i);
    add(Action::kLose, i);
    if (used_.doubles < bounds_.doubles) add(Action::kDeliverTwice, i);
  }
  for (size_t i = 0; i < runs_.size(); ++i) {
    const RunOf& run = runs_[i];
    if (used_.attaches < bounds_.attaches) add(Action::kAttach, i);
    if (run.boot != boot_ || run.dropped) continue;
    if (!run.ended) add(Action::kEnd, i);
    if (run.attached) add(Action::kLeave, i);
  }
  if (!table_->Expired(Now()).empty()) add(Action::kSweep);
  if (table_->full() && table_->Victim(Now())) add(Action::kMakeRoom);
  if (used_.deaths < bounds_.deaths) add(Action::kDie);
  if (now_ < bounds_.seconds) add(Action::kSecond);
  return actions;
}

void StartModel::Do(const Action& action) {
  const size_t who = action.who;
  switch (action.kind) {
    case Action::kSend:
    case Action::kSendOther:
      Send(static_cast<int>(who), action.kind == Action::kSendOther);
      break;
    case Action::kRefresh:
      first_boot_[who] = boot_;  // for a new call; it knows that the old one is over
      break;
    case Action::kDeliver:
    case Action::kDeliverTwice: {
      const Message message = under_way_[who];
      const auto at = under_way_.begin() + static_cast<int64_t>(who);
      action.kind == Action::kDeliver ? (void)under_way_.erase(at) : (void)++used_.doubles;
      Deliver(message);
      break;
    }
    case Action::kLose:
      under_way_.erase(under_way_.begin() + static_cast<int64_t>(who));
      break;
    case Action::kEnd:
      runs_[who].ended = now_;
      table_->OnEnded(IdOf(runs_[who].id), Now());
      if (Off(StartRule::kAttachedIsNotDropped)) table_->SetDroppable(IdOf(runs_[who].id), Now());
      break;
    case Action::kLeave:
      runs_[who].attached = false;
      table_->SetDroppable(IdOf(runs_[who].id), Now());
      break;
    case Action::kAttach:
      ++used_.attaches;
      Attach(who);
      break;
    case Action::kSweep:
      Sweep();
      break;
    case Action::kMakeRoom:
      Drop(*table_->Victim(Now()), true);
      break;
    case Action::kDie:
      Die();
      break;
    case Action::kSecond:
      ++now_;
      break;
  }
  Check();
}

// A repeat carries the handle of its first try.
void StartModel::Send(int id, bool other) {
  ++(other ? used_.others : used_.sends);
  std::optional<int>& boot = first_boot_[static_cast<size_t>(id)];
  if (!boot) boot = boot_;
  under_way_.push_back({id, other, *boot});
}

void StartModel::Deliver(const Message& message) {
  guest::ExecutionTable::StartKey key{IdOf(message.id), SpecOf(message.other),
                                      BootInHandle(message.boot)};
  if (Off(StartRule::kCallersIncarnation)) key.boot_id = BootOf(boot_);
  const RunOf* live = Live(message.id);
  if (Off(StartRule::kSpecIsCompared) && live != nullptr) key.spec_hash = SpecOf(live->other);
  const auto admission = table_->Admit(key, Now());
  if (!admission.ok()) return Refused(message, admission.status());
  if (*admission == guest::ExecutionTable::Admission::kAttach) {
    // Running it once more instead.
    if (Off(StartRule::kKnownIsAttachedTo)) return Created(message);
    return Attached(message);
  }
  table_->Add(key, !Off(StartRule::kTombstoneIsKept));
  Created(message);
}

void StartModel::Created(const Message& message) {
  for (const RunOf& run : runs_) {
    if (run.id != message.id || run.boot != message.boot) continue;
    // An agent that dies ends its programs.
    const bool recent = !run.ended || now_ < *run.ended + kTombstone;
    if (recent) Break("a command ran twice");
  }
  if (message.boot != boot_) Break("it ran in another incarnation than its caller's");
  runs_.push_back({message.id, message.other, boot_, {}, {}, true});
}

void StartModel::Attached(const Message& message) {
  RunOf* run = Live(message.id);
  if (run == nullptr) return Break("attached to nothing");
  if (run->other != message.other) Break("attached to a command that was not asked for");
  if (message.boot != boot_) Break("attached to another incarnation");
  run->attached = true;
  table_->SetDroppable(IdOf(message.id), kNever);
}

void StartModel::Refused(const Message& message, const absl::Status& why) {
  const RunOf* live = Live(message.id);
  const Reason reason = ReasonOf(why);
  const bool same = live != nullptr && live->other == message.other && message.boot == boot_;
  if (same) Break("a repeat of a known start is refused");
  if (reason == Reason::kCapacity) {
    const auto of_now = [this](const RunOf& run) { return run.boot == boot_; };
    if (std::none_of(runs_.begin(), runs_.end(), of_now)) Break("refused for want of room");
  }
  if (reason != Reason::kExecutionExpired) return;
  const auto dropped = [&](const RunOf& run) { return run.id == message.id && run.dropped; };
  if (std::none_of(runs_.begin(), runs_.end(), dropped)) Break("expired, and never was");
  const auto remembered = [&](const RunOf& run) {
    return dropped(run) && now_ < *run.dropped + kTombstone;
  };
  if (std::none_of(runs_.begin(), runs_.end(), remembered)) Break("remembered for ever");
}

// Somebody who knows the execution and its incarnation comes back.
void StartModel::Attach(size_t index) {
  const RunOf run = runs_[index];
  const std::string boot = Off(StartRule::kAttachNamesItsIncarnation) ? "" : BootOf(run.boot);
  const absl::Status status = table_->Find(IdOf(run.id), boot, Now());
  if (!status.ok()) {
    if (run.boot == boot_ && !run.dropped) Break("a known execution is not found");
    return;
  }
  if (run.boot != boot_) return Break("incarnations are mixed up");
  RunOf* live = Live(run.id);
  if (live == nullptr) return Break("found, and not known");
  live->attached = true;
  table_->SetDroppable(IdOf(run.id), kNever);
}

void StartModel::Sweep() {
  for (const std::string& id : table_->Expired(Now())) Drop(id, false);
}

void StartModel::Drop(const std::string& id, bool for_room) {
  RunOf* run = Live(id[1] - '0');
  if (run == nullptr || !run->ended) return Break("what runs is dropped");
  if (run->attached) Break("what somebody is attached to is dropped");
  if (!for_room && now_ < *run->ended + kRetention) Break("output is dropped early");
  table_->Drop(id, Now());
  run->dropped = now_;
}

void StartModel::Die() {
  ++used_.deaths;
  for (RunOf& run : runs_) {
    if (run.boot == boot_ && !run.ended) run.ended = now_;
  }
  table_.emplace(BootOf(++boot_), limits_);
}

void StartModel::Check() {
  if (table_->known() > kMaxKnown) Break("more executions than the limit");
  if (table_->tombstones() > kMaxTombstones + kMaxKnown) Break("more tombstones than the limit");
}

const char* RuleName(StartRule rule) {
  static constexpr const char* kNames[] = {
      "none",
      "a known id is attached to",
      "the spec is compared",
      "a tombstone is kept",
      "a tombstone lasts its time",
      "full refuses new ones",
      "the incarnation is the caller's",
      "an attach names its incarnation",
      "what is attached is not dropped",
      "output is kept its time",
  };
  static_assert(std::size(kNames) == kStartRules);
  return kNames[static_cast<int>(rule)];
}

std::string StartModel::Key() const {
  std::string key;
  const auto number = [&key](int value) { key += static_cast<char>(value + 40); };
  for (const int value :
       {boot_, now_, used_.sends, used_.doubles, used_.deaths, used_.others, used_.attaches}) {
    number(value);
  }
  for (const auto& boot : first_boot_) number(boot.value_or(-1));
  for (const Message& message : under_way_) {
    key += 'm';
    number(message.id + 10 * message.other);
    number(message.boot);
  }
  for (const RunOf& run : runs_) {
    key += 'r';
    number(run.id + 10 * run.other + 20 * run.attached);
    number(run.boot);
    number(run.ended.value_or(-1));
    number(run.dropped.value_or(-1));
  }
  return key;
}

std::string StartModel::Name(const Action& action) const {
  static constexpr const char* kNames[] = {"sends",
                                           "sends another spec under",
                                           "a new handle for",
                                           "message arrives:",
                                           "message arrives and stays:",
                                           "message is lost:",
                                           "program ends:",
                                           "everybody leaves",
                                           "attach to",
                                           "sweep",
                                           "make room",
                                           "the agent is replaced",
                                           "a second passes"};
  return StrCat(now_, " s: ", kNames[action.kind], " ", int{action.who});
}

}  // namespace sandbroker::model
