// Cancellation as data: a caller holds the source, work holds the token and says what cancelling
// it does. Loop thread only.
#pragma once

#include <functional>
#include <memory>
#include <utility>

namespace sandbroker {

class CancelToken {
 public:
  // Never cancelled.
  CancelToken() = default;

  bool cancelled() const { return state_ && state_->cancelled; }

  // Runs `fn` once when cancelled, at once if it already is. One subscriber at a time: a new one
  // replaces the old. Pass nullptr to unsubscribe.
  void OnCancel(std::function<void()> fn) const {
    if (!state_) return;
    if (state_->cancelled && fn) {
      fn();
      return;
    }
    state_->fn = std::move(fn);
  }

 private:
  friend class CancelSource;
  struct State {
    bool cancelled = false;
    std::function<void()> fn;
  };
  std::shared_ptr<State> state_;
};

class CancelSource {
 public:
  CancelSource() { token_.state_ = std::make_shared<CancelToken::State>(); }
  const CancelToken& token() const { return token_; }
  void Cancel() {
    auto& state = *token_.state_;
    if (state.cancelled) return;
    state.cancelled = true;
    if (auto fn = std::exchange(state.fn, nullptr)) fn();
  }

 private:
  CancelToken token_;
};

}  // namespace sandbroker
