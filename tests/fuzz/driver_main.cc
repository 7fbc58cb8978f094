// Runs a fuzz harness without libFuzzer: every seed, then a bounded count of mutations drawn from
// a fixed generator, so that a failure comes back with the same numbers. On a crash the input is
// left in the file that was named, and running with that file repeats it.
//
//   NAME_fuzz [--execs N] [--seed S] [--crash-file F] [FILE ...]
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

namespace sandbroker::fuzz {
namespace {

constexpr size_t kMaxInput = 4096;
constexpr size_t kPoolSize = 512;

struct Options {
  uint64_t execs = 200'000;
  uint64_t seed = 1;
  std::string crash_file;
  std::vector<std::string> files;
};

// Kept where the handler of SIGABRT and SIGSEGV finds them.
const std::string* current_input = nullptr;
const char* crash_path = nullptr;

void OnCrash(int number) {
  if (current_input != nullptr && crash_path != nullptr) {
    const int fd = open(crash_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd >= 0 && write(fd, current_input->data(), current_input->size()) < 0) _exit(1);
  }
  std::signal(number, SIG_DFL);
  std::raise(number);
}

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  size_t Below(size_t bound) { return bound == 0 ? 0 : random_() % bound; }

  std::string Mutate(std::string input, const std::string& other) {
    for (size_t steps = 1 + Below(4); steps > 0; --steps) Step(&input, other);
    if (input.size() > kMaxInput) input.resize(kMaxInput);
    return input;
  }

 private:
  char AnyByte() { return static_cast<char>(random_()); }

  void Step(std::string* input, const std::string& other) {
    const size_t at = Below(input->size() + 1);
    const bool inside = at < input->size();
    switch (Below(9)) {
      case 0:
        if (inside) (*input)[at] = static_cast<char>((*input)[at] ^ (1 << Below(8)));
        break;
      case 1:
        if (inside) (*input)[at] = AnyByte();
        break;
      case 2:
        input->insert(at, 1 + Below(8), AnyByte());
        break;
      case 3:
        input->erase(at, 1 + Below(8));
        break;
      case 4:
        input->resize(at);
        break;
      case 5:
        StoreEdge(input, at);
        break;
      case 6:
        input->insert(at, input->substr(Below(input->size() + 1), 1 + Below(32)));
        break;
      case 7:
        input->insert(at, other.substr(Below(other.size() + 1), 1 + Below(64)));
        break;
      case 8:
        if (inside) (*input)[at] = static_cast<char>((*input)[at] + (Below(2) != 0 ? 1 : -1));
        break;
    }
  }

  // Numbers at which arithmetic turns over, in the width of the link's fields.
  void StoreEdge(std::string* input, size_t at) {
    static constexpr uint64_t kEdges[] = {0,
                                          1,
                                          7,
                                          8,
                                          9,
                                          0x7f,
                                          0x80,
                                          0xff,
                                          0xffff,
                                          0x10000,
                                          0x40000,
                                          0x40001,
                                          0x7fffffff,
                                          0x80000000,
                                          0xffffffff,
                                          0x7fffffffffffffff,
                                          0x8000000000000000,
                                          0xffffffffffffffff};
    const uint64_t edge = kEdges[Below(std::size(kEdges))];
    const size_t width = size_t{1} << Below(4);
    char raw[sizeof(edge)];
    std::memcpy(raw, &edge, sizeof(edge));
    input->replace(at, width, raw, width);
  }

  std::mt19937_64 random_;
};

void RunOne(const std::string& input) {
  // A copy of exactly this size, so that AddressSanitizer sees a read behind it.
  const std::vector<uint8_t> exact(input.begin(), input.end());
  current_input = &input;
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
  current_input = nullptr;
}

bool ParseOptions(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg.rfind("--", 0) != 0) {
      options->files.push_back(arg);
      continue;
    }
    if (++i == argc) return false;
    if (arg == "--execs") {
      options->execs = std::strtoull(argv[i], nullptr, 10);
    } else if (arg == "--seed") {
      options->seed = std::strtoull(argv[i], nullptr, 10);
    } else if (arg == "--crash-file") {
      options->crash_file = argv[i];
    } else {
      return false;
    }
  }
  return true;
}

int RunFiles(const std::vector<std::string>& files) {
  for (const std::string& name : files) {
    std::ifstream file(name, std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "cannot read %s\n", name.c_str());
      return 2;
    }
    RunOne(std::string(std::istreambuf_iterator<char>(file), {}));
  }
  return 0;
}

void Fuzz(const Options& options) {
  Mutator mutator(options.seed);
  std::vector<std::string> pool = Seeds();
  pool.emplace_back();
  const size_t seeds = pool.size();
  for (const std::string& seed : pool) RunOne(seed);
  for (uint64_t i = 0; i < options.execs; ++i) {
    std::string input =
        mutator.Mutate(pool[mutator.Below(pool.size())], pool[mutator.Below(pool.size())]);
    RunOne(input);
    if (mutator.Below(4) != 0) continue;
    if (pool.size() < kPoolSize) {
      pool.push_back(std::move(input));
    } else {
      pool[seeds + mutator.Below(kPoolSize - seeds)] = std::move(input);  // seeds stay
    }
  }
  std::printf("%zu seeds and %llu mutations of them, generator seed %llu: nothing found\n", seeds,
              static_cast<unsigned long long>(options.execs),
              static_cast<unsigned long long>(options.seed));
}

int Main(int argc, char** argv) {
  Options options;
  if (!ParseOptions(argc, argv, &options)) {
    std::fprintf(stderr, "usage: %s [--execs N] [--seed S] [--crash-file F] [FILE ...]\n", argv[0]);
    return 2;
  }
  if (!options.crash_file.empty()) crash_path = options.crash_file.c_str();
  std::signal(SIGABRT, OnCrash);
  std::signal(SIGSEGV, OnCrash);
  if (!options.files.empty()) return RunFiles(options.files);
  Fuzz(options);
  return 0;
}

}  // namespace
}  // namespace sandbroker::fuzz

int main(int argc, char** argv) { return sandbroker::fuzz::Main(argc, argv); }
