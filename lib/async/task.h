// Coroutines of the domain. All of them run on the one loop thread (see loop.h), so members they
// share need no lock; a value crosses to another thread only through Loop::Post or BlockingPool.
#pragma once

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

namespace sandbroker {

template <class T>
using Task = boost::asio::awaitable<T>;

// One value that somebody will set and one coroutine awaits. Set may come before or after Wait;
// only the first Set counts. Loop thread only. Cheap to copy: copies share the value.
template <class T>
class OneShot {
 public:
  void Set(T value) const {
    if (state_->done) return;
    state_->done = true;
    if (state_->waiter) {
      auto waiter = std::move(state_->waiter);
      state_->waiter = nullptr;
      std::move(waiter)(std::move(value));
    } else {
      state_->value.emplace(std::move(value));
    }
  }
  bool done() const { return state_->done; }

  // Once. Ends when Set is called: the one who holds the setting side owns the bound.
  Task<T> Wait() const {
    auto state = state_;
    if (state->value) co_return *std::move(state->value);
    auto initiate = [state](auto handler) {
      // Swapped in: the move assignment of Boost 1.81 calls itself for ever.
      boost::asio::any_completion_handler<void(T)> waiter(std::move(handler));
      state->waiter.swap(waiter);
    };
    co_return co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>, void(T)>(
        initiate, boost::asio::use_awaitable);
  }

 private:
  struct State {
    bool done = false;
    std::optional<T> value;
    boost::asio::any_completion_handler<void(T)> waiter;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace sandbroker
