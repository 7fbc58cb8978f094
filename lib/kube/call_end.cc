#include "lib/kube/call_end.h"

#include <utility>

namespace sandbroker::kube {

CallEnd::CallEnd(Scheduler& scheduler, Duration bound, CancelToken cancel)
    : scheduler_(scheduler), cancel_(std::move(cancel)) {
  Extend(bound);
  cancel_.OnCancel([this] { End(Why::kCancelled); });
}

CallEnd::~CallEnd() { cancel_.OnCancel(nullptr); }

const char* CallEnd::text() const {
  switch (why_) {
    case Why::kGoesOn:
      break;
    case Why::kBound:
      return "no answer in time";
    case Why::kCancelled:
      return "cancelled";
  }
  return "";
}

void CallEnd::Interrupt(std::function<void()> fn) {
  if (over() && fn) {
    fn();
    return;
  }
  interrupt_ = std::move(fn);
}

Task<void> CallEnd::Sleep(Duration delay) {
  if (over()) co_return;
  OneShot<bool> woken;
  const auto timer = scheduler_.After(delay, [woken] { woken.Set(true); });
  Interrupt([woken] { woken.Set(false); });
  co_await woken.Wait();
  Interrupt(nullptr);
}

void CallEnd::Extend(Duration bound) {
  until_ = SaturatingAdd(scheduler_.Now(), bound);
  timer_.reset();
  if (until_ != kNever) timer_ = scheduler_.After(bound, [this] { End(Why::kBound); });
}

void CallEnd::End(Why why) {
  if (over()) return;
  why_ = why;
  if (const auto fn = std::exchange(interrupt_, nullptr)) fn();
}

}  // namespace sandbroker::kube
