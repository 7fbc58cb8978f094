// Model checking by exploration. A model is a value with these members; it checks its own rules in
// Do and writes the one that was broken into violation():
//   struct Action; std::vector<Action> Actions() const; void Do(const Action&);
//   std::string Name(const Action&) const; std::string Key() const; std::string violation() const;
// Equal keys mean equal futures. Everything explores what its bounds allow, Walk strolls at random.
#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace sandbroker::testing {

struct Explored {
  uint64_t states = 0;
  uint64_t steps = 0;
  bool complete = true;  // false: the limit of states was reached
  std::string violation;
  std::vector<std::string> trace;  // that led to it

  std::string Text() const {
    std::string text = violation;
    for (const std::string& step : trace) text += "\n  " + step;
    return text;
  }
};

template <class World>
class Explorer {
 public:
  explicit Explorer(uint64_t max_states = 20'000'000) : max_states_(max_states) {}

  // Stops at the violation found first.
  Explored Everything(const World& start) {
    result_ = {};
    seen_.clear();
    Visit(start);
    return result_;
  }

  Explored Walk(const World& start, uint32_t seed, int walks, int length) {
    result_ = {};
    std::mt19937 random(seed);
    for (int walk = 0; walk < walks && result_.violation.empty(); ++walk) {
      World world = start;
      result_.trace.clear();
      for (int step = 0; step < length; ++step) {
        const auto actions = world.Actions();
        if (actions.empty()) break;
        const auto& action = actions[random() % actions.size()];
        result_.trace.push_back(world.Name(action));
        world.Do(action);
        ++result_.steps;
        result_.violation = world.violation();
        if (!result_.violation.empty()) break;
      }
    }
    return result_;
  }

 private:
  void Visit(const World& world) {
    if (!seen_.insert(std::hash<std::string>()(world.Key())).second) return;
    if (++result_.states >= max_states_) result_.complete = false;
    if (!result_.complete) return;
    for (const auto& action : world.Actions()) {
      World next = world;
      result_.trace.push_back(world.Name(action));
      next.Do(action);
      ++result_.steps;
      result_.violation = next.violation();
      if (!result_.violation.empty()) return;
      Visit(next);
      if (!result_.violation.empty()) return;
      result_.trace.pop_back();
    }
  }

  const uint64_t max_states_;
  Explored result_;
  std::unordered_set<uint64_t> seen_;
};

}  // namespace sandbroker::testing
