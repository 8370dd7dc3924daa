// Device memory, memory of the host, copies.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <numeric>

#include "harness.h"

namespace {

using namespace aclnn::tests;
using Bytes = std::vector<unsigned char>;

constexpr auto kHuge = ACL_MEM_MALLOC_HUGE_FIRST;

// Bytes that differ from place to place and from seed to seed.
Bytes some_bytes(size_t count, unsigned seed) {
  Bytes bytes(count);
  uint32_t state = seed * 2654435761U + 1;
  for (unsigned char& byte : bytes) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<unsigned char>(state >> 24);
  }
  return bytes;
}

char* allocate(size_t bytes) {
  void* memory = nullptr;
  MUST(aclrtMalloc(&memory, bytes, kHuge));
  return static_cast<char*>(memory);
}

Bytes read(const char* from, size_t count) {
  Bytes bytes(count);
  MUST(aclrtMemcpy(bytes.data(), count, from, count, ACL_MEMCPY_DEVICE_TO_HOST));
  return bytes;
}

void write(char* to, const Bytes& bytes) {
  MUST(aclrtMemcpy(to, bytes.size(), bytes.data(), bytes.size(), ACL_MEMCPY_HOST_TO_DEVICE));
}

// The signal that reading one byte ends a child with; 0 for none.
int signal_of_reading(const char* address) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    _exit(*static_cast<const volatile char*>(address) == 0 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

void an_address_is_the_devices_alone() {
  char* memory = allocate(10000);
  EXPECT_EQ(signal_of_reading(memory), SIGSEGV);
  EXPECT_EQ(signal_of_reading(memory + 9999), SIGSEGV);
  MUST(aclrtFree(memory));
}

void addresses_can_be_computed_with() {
  char* memory = allocate(1000);
  EXPECT(read(memory, 1000) == Bytes(1000));  // begins as zeros
  const Bytes part = some_bytes(300, 1);
  write(memory + 500, part);
  EXPECT(read(memory + 500, 300) == part);
  EXPECT(read(memory + 600, 10) == Bytes(part.begin() + 100, part.begin() + 110));
  EXPECT(read(memory + 490, 10) == Bytes(10));
  MUST(aclrtFree(memory));
}

void copies_of_every_size_arrive() {
  const size_t kib = 1024, mib = 1024 * kib;
  for (const size_t size : {size_t{1}, size_t{3}, 4 * kib, 256 * kib - 1, 256 * kib, 256 * kib + 1,
                            mib, mib + 1, 3 * mib + 7, 20 * mib}) {
    char* first = allocate(size + 13);
    char* second = allocate(size + 5);
    const Bytes bytes = some_bytes(size, static_cast<unsigned>(size));
    write(first + 13, bytes);
    MUST(aclrtMemcpy(second + 5, size, first + 13, size, ACL_MEMCPY_DEVICE_TO_DEVICE));
    EXPECT(read(second + 5, size) == bytes);
    MUST(aclrtFree(first));
    MUST(aclrtFree(second));
  }
}

void a_copy_may_be_changed_when_it_returns() {
  char* memory = allocate(4096);
  OwnStream stream;
  Bytes bytes = some_bytes(4096, 1);
  const Bytes before = bytes;
  MUST(aclrtMemcpyAsync(memory, 4096, bytes.data(), 4096, ACL_MEMCPY_HOST_TO_DEVICE, stream.get()));
  bytes.assign(4096, 0);
  MUST(aclrtSynchronizeStream(stream.get()));
  EXPECT(read(memory, 4096) == before);
  MUST(aclrtFree(memory));
}

void asynchronous_copies_are_in_the_streams_order() {
  const size_t size = 3000000;
  char* memory = allocate(size);
  void *source = nullptr, *target = nullptr;
  MUST(aclrtMallocHost(&source, size));
  MUST(aclrtMallocHost(&target, size));
  const Bytes bytes = some_bytes(size, 4);
  std::copy(bytes.begin(), bytes.end(), static_cast<unsigned char*>(source));
  OwnStream stream;
  MUST(aclrtMemsetAsync(memory, size, 7, size, stream.get()));
  MUST(aclrtMemcpyAsync(memory, size, source, size - 1, ACL_MEMCPY_HOST_TO_DEVICE, stream.get()));
  MUST(aclrtMemcpyAsync(target, size, memory, size, ACL_MEMCPY_DEVICE_TO_HOST, stream.get()));
  MUST(aclrtMemsetAsync(memory, size, 9, size, stream.get()));
  MUST(aclrtSynchronizeStream(stream.get()));
  Bytes expected = bytes;
  expected.back() = 7;
  const auto* found = static_cast<unsigned char*>(target);
  EXPECT(Bytes(found, found + size) == expected);
  EXPECT(read(memory, size) == Bytes(size, 9));
  MUST(aclrtFreeHost(source));
  MUST(aclrtFreeHost(target));
  MUST(aclrtFree(memory));
}

// The copy is under way behind a closed gate when its memory is freed, which must wait for it.
void memory_of_the_host_outlives_its_copies() {
  const size_t size = 2 << 20;
  Numbers numbers(std::vector<int64_t>(size / sizeof(int64_t), 5));
  OwnStream stream;
  void *source = nullptr, *target = nullptr;
  MUST(aclrtMallocHost(&source, size));
  MUST(aclrtMallocHost(&target, size));
  std::fill_n(static_cast<int64_t*>(source), size / sizeof(int64_t), 6);
  Numbers held(std::vector<int64_t>(size / sizeof(int64_t)));
  MUST(pass(numbers, 1, held, stream.get()));
  MUST(
      aclrtMemcpyAsync(target, size, held.memory(), size, ACL_MEMCPY_DEVICE_TO_HOST, stream.get()));
  MUST(aclrtMemcpyAsync(numbers.memory(), size, source, size, ACL_MEMCPY_HOST_TO_DEVICE,
                        stream.get()));
  ask_driver("open soon 1");
  MUST(aclrtFreeHost(target));
  MUST(aclrtFreeHost(source));
  MUST(aclrtSynchronizeStream(stream.get()));
  EXPECT(numbers.read() == std::vector<int64_t>(size / sizeof(int64_t), 6));
}

void rows_are_copied() {
  char* memory = allocate(100);
  const Bytes rows = some_bytes(40, 3);  // 4 rows of 8 in 10
  MUST(aclrtMemcpy2d(memory + 2, 20, rows.data(), 10, 8, 4, ACL_MEMCPY_HOST_TO_DEVICE));
  const Bytes whole = read(memory, 100);
  Bytes expected(100);
  for (int row = 0; row < 4; ++row) {
    std::copy_n(rows.begin() + 10 * row, 8, expected.begin() + 2 + 20 * row);
  }
  EXPECT(whole == expected);
  Bytes back(40);
  MUST(aclrtMemcpy2dAsync(back.data(), 10, memory + 2, 20, 8, 4, ACL_MEMCPY_DEVICE_TO_HOST,
                          nullptr));
  for (int row = 0; row < 4; ++row) {
    EXPECT(
        std::equal(back.begin() + 10 * row, back.begin() + 10 * row + 8, rows.begin() + 10 * row));
  }
  EXPECT_REFUSED(aclrtMemcpy2d(memory, 5, rows.data(), 10, 8, 4, ACL_MEMCPY_HOST_TO_DEVICE),
                 ACL_ERROR_INVALID_PARAM, "width is 8; dpitch is less");
  EXPECT_REFUSED(aclrtMemcpy2d(memory + 40, 20, rows.data(), 10, 8, 4, ACL_MEMCPY_HOST_TO_DEVICE),
                 ACL_ERROR_RT_PARAM_INVALID,
                 "dst has 60 bytes to the end of its allocation; the copy has 68");
  MUST(aclrtFree(memory));
}

void bytes_are_set() {
  char* memory = allocate(10);
  MUST(aclrtMemset(memory + 2, 8, 0x1FF, 3));
  EXPECT(read(memory, 10) == Bytes({0, 0, 255, 255, 255, 0, 0, 0, 0, 0}));
  EXPECT_REFUSED(aclrtMemset(memory, 5, 0, 6), ACL_ERROR_INVALID_PARAM,
                 "count is 6; devPtr has room for 5 (maxCount)");
  EXPECT_REFUSED(aclrtMemset(memory + 5, 6, 0, 6), ACL_ERROR_RT_PARAM_INVALID,
                 "devPtr has 5 bytes to the end of its allocation");
  MUST(aclrtFree(memory));
}

void the_pointers_tell_the_kind() {
  char* memory = allocate(8);
  Bytes bytes = some_bytes(8, 2), back(8), again(8);
  MUST(aclrtMemcpy(memory, 8, bytes.data(), 8, ACL_MEMCPY_DEFAULT));
  MUST(aclrtMemcpy(back.data(), 8, memory, 8, ACL_MEMCPY_DEFAULT));
  EXPECT(back == bytes);
  MUST(aclrtMemcpy(again.data(), 8, back.data(), 8, ACL_MEMCPY_HOST_TO_HOST));
  EXPECT(again == bytes);
  EXPECT_REFUSED(aclrtMemcpy(back.data(), 8, memory, 8, ACL_MEMCPY_HOST_TO_DEVICE),
                 ACL_ERROR_RT_PARAM_INVALID, "dst is no address of device memory");
  EXPECT_REFUSED(aclrtMemcpy(back.data(), 8, bytes.data(), 8, ACL_MEMCPY_DEVICE_TO_HOST),
                 ACL_ERROR_RT_PARAM_INVALID, "src is no address of device memory");
  EXPECT_REFUSED(aclrtMemcpy(back.data(), 8, bytes.data(), 8, static_cast<aclrtMemcpyKind>(9)),
                 ACL_ERROR_INVALID_PARAM, "kind is 9; kinds are 0 to 7");
  EXPECT_REFUSED(
      aclrtMemcpyAsync(back.data(), 8, bytes.data(), 8, ACL_MEMCPY_HOST_TO_HOST, nullptr),
      ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "both pointers are the host's");
  MUST(aclrtFree(memory));
}

void copies_that_cannot_be_are_refused() {
  char* memory = allocate(8);
  Bytes bytes(16);
  const auto up = ACL_MEMCPY_HOST_TO_DEVICE;
  EXPECT_REFUSED(aclrtMemcpy(nullptr, 8, bytes.data(), 8, up), ACL_ERROR_INVALID_PARAM,
                 "dst is null");
  EXPECT_REFUSED(aclrtMemcpy(memory, 8, nullptr, 8, up), ACL_ERROR_INVALID_PARAM, "src is null");
  EXPECT_REFUSED(aclrtMemcpy(memory, 7, bytes.data(), 8, up), ACL_ERROR_INVALID_PARAM,
                 "count is 8; dst has room for 7 (destMax)");
  EXPECT_REFUSED(aclrtMemcpy(memory + 1, 8, bytes.data(), 8, up), ACL_ERROR_RT_PARAM_INVALID,
                 "dst has 7 bytes to the end of its allocation; the copy has 8");
  EXPECT_REFUSED(aclrtMemcpy(bytes.data(), 16, memory, 9, ACL_MEMCPY_DEVICE_TO_HOST),
                 ACL_ERROR_RT_PARAM_INVALID, "src has 8 bytes to the end of its allocation");
  EXPECT_EQ(aclrtMemcpy(memory + 8, 0, bytes.data(), 0, up), 0);  // nothing, at the end
  EXPECT_EQ(aclGetRecentErrMsg(), static_cast<const char*>(nullptr));
  MUST(aclrtFree(memory));
}

void memory_is_freed_once() {
  char* memory = allocate(100);
  EXPECT_REFUSED(aclrtFree(nullptr), ACL_ERROR_INVALID_PARAM, "devPtr is null");
  EXPECT_REFUSED(aclrtFree(memory + 1), ACL_ERROR_RT_PARAM_INVALID,
                 "not the begin of an allocation");
  MUST(aclrtFree(memory));
  EXPECT_REFUSED(aclrtFree(memory), ACL_ERROR_RT_PARAM_INVALID, "not the begin of an allocation");
  char byte = 0;
  EXPECT_REFUSED(aclrtMemcpy(&byte, 1, memory, 1, ACL_MEMCPY_DEVICE_TO_HOST),
                 ACL_ERROR_RT_PARAM_INVALID, "src is no address of device memory");
  EXPECT_REFUSED(aclrtFreeHost(&byte), ACL_ERROR_RT_PARAM_INVALID, "not from aclrtMallocHost");
}

void too_much_is_refused_and_the_rest_goes_on() {
  void* memory = &memory;
  EXPECT_REFUSED(aclrtMalloc(&memory, 0, kHuge), ACL_ERROR_INVALID_PARAM, "size is 0");
  EXPECT_REFUSED(aclrtMalloc(nullptr, 8, kHuge), ACL_ERROR_INVALID_PARAM, "devPtr is null");
  EXPECT_REFUSED(aclrtMalloc(&memory, size_t{1} << 60, kHuge), ACL_ERROR_RT_MEMORY_ALLOCATION,
                 "1152921504606846976");
  // The server's device has 1 GiB.
  EXPECT_REFUSED(aclrtMalloc(&memory, size_t{2} << 30, kHuge), ACL_ERROR_RT_MEMORY_ALLOCATION,
                 "has no room for 2147483648 bytes");
  size_t free = 0, total = 0, before = 0;
  MUST(aclrtGetMemInfo(ACL_HBM_MEM, &before, &total));
  EXPECT_EQ(total, size_t{1} << 30);
  char* some = allocate(12345);
  MUST(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total));
  EXPECT_EQ(before - free, size_t{12345});
  MUST(aclrtFree(some));
}

}  // namespace

int main(int argc, char** argv) {
  return run_device_tests(
      {{"an_address_is_the_devices_alone", an_address_is_the_devices_alone},
       {"addresses_can_be_computed_with", addresses_can_be_computed_with},
       {"copies_of_every_size_arrive", copies_of_every_size_arrive},
       {"a_copy_may_be_changed_when_it_returns", a_copy_may_be_changed_when_it_returns},
       {"asynchronous_copies_are_in_the_streams_order",
        asynchronous_copies_are_in_the_streams_order},
       {"memory_of_the_host_outlives_its_copies", memory_of_the_host_outlives_its_copies},
       {"rows_are_copied", rows_are_copied},
       {"bytes_are_set", bytes_are_set},
       {"the_pointers_tell_the_kind", the_pointers_tell_the_kind},
       {"copies_that_cannot_be_are_refused", copies_that_cannot_be_are_refused},
       {"memory_is_freed_once", memory_is_freed_once},
       {"too_much_is_refused_and_the_rest_goes_on", too_much_is_refused_and_the_rest_goes_on}},
      argc, argv);
}
