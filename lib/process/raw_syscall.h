// System calls without libc: no errno, no locks, nothing that belongs to another task. For code
// that runs in a child which shares its parent's memory while the parent goes on. Any thread.
#pragma once

#include <sched.h>
#include <sys/syscall.h>

#include <cstdint>

// Such a child shares our memory until exec (CLONE_VM), which is what makes a start cheap. Under a
// sanitizer it gets a copy instead, because instrumented code in it would write to our shadow.
#ifdef SANDBROKER_SANITIZED
#define SANDBROKER_CHILD_CODE __attribute__((no_sanitize("address", "undefined", "thread")))
#define SANDBROKER_CLONE_VM 0
#else
#define SANDBROKER_CHILD_CODE
#define SANDBROKER_CLONE_VM CLONE_VM
#endif

namespace sandbroker {

// The kernel's own layouts; libc's are larger.
using KernelSigset = uint64_t;
inline constexpr int kSignals = 64;

#if defined(__x86_64__)

// What the kernel answers: -errno on failure.
SANDBROKER_CHILD_CODE inline long Syscall6(long number, long a, long b, long c, long d, long e,
                                           long f) {
  long result;
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
}

// A child that runs fn(argument) on `stack_top` (16-byte aligned); fn must not return. `child`
// holds its pid before it runs, with CLONE_PARENT_SETTID.
SANDBROKER_CHILD_CODE inline long RawClone(unsigned long flags, void* stack_top, int (*fn)(void*),
                                           void* argument, int* child) {
  long result;
  register long r10 asm("r10") = 0;
  register long r8 asm("r8") = 0;
  asm volatile(
      "syscall\n\t"
      "test %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "mov %[argument], %%rdi\n\t"
      "call *%[fn]\n\t"
      "ud2\n"
      "1:"
      : "=a"(result)
      : "a"(static_cast<long>(SYS_clone)), "D"(flags), "S"(stack_top), "d"(child), "r"(r10),
        "r"(r8), [fn] "r"(fn), [argument] "r"(argument)
      : "rcx", "r11", "memory", "cc");
  return result;
}

#elif defined(__aarch64__)

SANDBROKER_CHILD_CODE inline long Syscall6(long number, long a, long b, long c, long d, long e,
                                           long f) {
  register long x8 asm("x8") = number;
  register long x0 asm("x0") = a;
  register long x1 asm("x1") = b;
  register long x2 asm("x2") = c;
  register long x3 asm("x3") = d;
  register long x4 asm("x4") = e;
  register long x5 asm("x5") = f;
  asm volatile("svc #0"
               : "+r"(x0)
               : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
               : "memory", "cc");
  return x0;
}

SANDBROKER_CHILD_CODE inline long RawClone(unsigned long flags, void* stack_top, int (*fn)(void*),
                                           void* argument, int* child) {
  register long x8 asm("x8") = SYS_clone;
  register long x0 asm("x0") = static_cast<long>(flags);
  register void* x1 asm("x1") = stack_top;
  register int* x2 asm("x2") = child;
  register long x3 asm("x3") = 0;
  register long x4 asm("x4") = 0;
  asm volatile(
      "svc #0\n\t"
      "cbnz x0, 1f\n\t"
      "mov x0, %[argument]\n\t"
      "blr %[fn]\n\t"
      "brk #0\n"
      "1:"
      : "+r"(x0)
      : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), [fn] "r"(fn), [argument] "r"(argument)
      : "memory", "cc", "x30");
  return x0;
}

#else
#error "system calls of this processor are not known here"
#endif

template <class... Args>
SANDBROKER_CHILD_CODE long Raw(long number, Args... args) {
  static_assert(sizeof...(args) <= 6);
  const long all[] = {(long)(args)..., 0, 0, 0, 0, 0, 0};
  return Syscall6(number, all[0], all[1], all[2], all[3], all[4], all[5]);
}

[[noreturn]] SANDBROKER_CHILD_CODE inline void RawExit(int code) {
  while (true) Raw(SYS_exit_group, code);
}

}  // namespace sandbroker
