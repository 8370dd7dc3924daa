// Debian's static libraries of gRPC can be linked into a shared library, but for a few objects of
// abseil and RE2: they keep thread-local variables in a way that only an executable can. What gRPC
// needs of those objects is defined here instead, so that the linker leaves them out.
//
// All of it is either about speed (abseil's per-thread caches and its sampling) or about what this
// client does not use (regular expressions come with xDS and with a server's access rules).
#include <absl/base/internal/sysinfo.h>
#include <absl/container/internal/raw_hash_set.h>
#include <absl/random/internal/pool_urbg.h>
#include <absl/strings/internal/cordz_functions.h>
#include <grpc/support/log.h>
#include <re2/re2.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <thread>

// abseil's text formatting names `stderr` in a way that only an executable can; the Makefile gives
// it this name there.
extern "C" {
__attribute__((visibility("hidden"))) FILE* aclnn_stderr = nullptr;
}

namespace {
__attribute__((constructor(101))) void set_stderr() { aclnn_stderr = stderr; }

// What gRPC would print is told by errors. This is the library's own gRPC; no other in the process
// falls silent.
__attribute__((constructor)) void silence() {
  if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function([](gpr_log_func_args*) {});
}
}  // namespace

namespace absl {
ABSL_NAMESPACE_BEGIN

// --- threads and processors (sysinfo.cc) -------------------------------------

namespace base_internal {

int NumCPUs() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

double NominalCPUFrequency() { return 1.0; }  // not known, as where /sys does not tell

pid_t GetTID() { return static_cast<pid_t>(syscall(SYS_gettid)); }

pid_t GetCachedTID() { return GetTID(); }

}  // namespace base_internal

// --- hash tables (raw_hash_set.cc) -------------------------------------------

namespace container_internal {

constexpr ctrl_t kNone = ctrl_t::kEmpty;
extern const ctrl_t kEmptyGroup[16] = {ctrl_t::kSentinel,
                                       kNone,
                                       kNone,
                                       kNone,
                                       kNone,
                                       kNone,
                                       kNone,
                                       kNone,
                                       kNone,
                                       kNone,
                                       kNone,
                                       kNone,
                                       kNone,
                                       kNone,
                                       kNone,
                                       kNone};

// Only shuffles the order, so that nobody relies on it.
bool ShouldInsertBackwards(size_t, const ctrl_t*) { return false; }

void ConvertDeletedToEmptyAndFullToDeleted(ctrl_t* ctrl, size_t capacity) {
  for (ctrl_t* group = ctrl; group < ctrl + capacity; group += Group::kWidth) {
    Group{group}.ConvertSpecialToEmptyAndFullToDeleted(group);
  }
  std::memcpy(ctrl + capacity + 1, ctrl, NumClonedBytes());
  ctrl[capacity] = ctrl_t::kSentinel;
}

void HashTableSizeOverflow() { std::abort(); }

}  // namespace container_internal

// --- random numbers (pool_urbg.cc) -------------------------------------------

namespace random_internal {

template <typename T>
typename RandenPool<T>::result_type RandenPool<T>::Generate() {
  result_type value{};
  Fill(absl::MakeSpan(&value, 1));
  return value;
}

template <typename T>
void RandenPool<T>::Fill(absl::Span<result_type> data) {
  constexpr size_t kMostAtOnce = 256;  // of getentropy
  auto* bytes = reinterpret_cast<char*>(data.data());
  for (size_t left = data.size() * sizeof(result_type); left != 0;) {
    const size_t part = std::min(left, kMostAtOnce);
    if (getentropy(bytes, part) != 0) std::abort();
    bytes += part;
    left -= part;
  }
}

template class RandenPool<uint8_t>;
template class RandenPool<uint16_t>;
template class RandenPool<uint32_t>;
template class RandenPool<uint64_t>;

}  // namespace random_internal

// --- samples of long texts (cordz_functions.cc) ------------------------------

namespace cord_internal {

ABSL_CONST_INIT thread_local int64_t cordz_next_sample = std::numeric_limits<int64_t>::max();

bool cordz_should_profile_slow() {
  cordz_next_sample = std::numeric_limits<int64_t>::max();
  return false;
}

}  // namespace cord_internal
ABSL_NAMESPACE_END
}  // namespace absl

// --- regular expressions (re2.cc) --------------------------------------------

namespace re2 {
namespace {
const std::string& reason() {
  static const std::string* const text = new std::string("regular expressions are left out");
  return *text;
}
}  // namespace

RE2::RE2(const std::string& pattern) : RE2(StringPiece(pattern), Options()) {}

RE2::RE2(const StringPiece& pattern, const Options& options) {
  pattern_ = std::string(pattern);
  options_.Copy(options);
  entire_regexp_ = nullptr;
  suffix_regexp_ = nullptr;
  prog_ = nullptr;
  error_ = &reason();
  error_code_ = ErrorInternal;
}

RE2::~RE2() = default;

bool RE2::FullMatchN(const StringPiece&, const RE2&, const Arg* const[], int) { return false; }

int RE2::GlobalReplace(std::string*, const RE2&, const StringPiece&) { return 0; }

}  // namespace re2
