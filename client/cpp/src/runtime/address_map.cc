#include "runtime/address_map.h"

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <shared_mutex>

namespace aclnn::runtime {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kLongest = uint64_t{1} << 46;

struct Segment {
  Session* session = nullptr;
  uint64_t buffer_id = 0;
  uint64_t bytes = 0;
  uint64_t reserved = 0;  // with the page behind
};

struct Map {
  std::shared_mutex mutex;
  std::map<uintptr_t, Segment> segments;  // by first address
  // Changes with every release: what was found before may have ended.
  std::atomic<uint64_t> releases{1};
};

// Never destroyed: calls may come while the process exits.
Map& map() {
  static Map* const instance = new Map;
  return *instance;
}

// The segments that a thread found last.
struct Found {
  uint64_t releases = 0;
  size_t next = 0;
  struct Entry {
    uintptr_t begin = 1;
    Segment segment;
  };
  std::array<Entry, 8> entries;
};

thread_local Found found;

bool inside(uintptr_t address, uintptr_t begin, const Segment& segment) {
  return address >= begin && address - begin <= segment.bytes;
}

void fill(Place* place, uintptr_t address, uintptr_t begin, const Segment& segment) {
  const uint64_t offset = address - begin;
  *place = {segment.session, segment.buffer_id, offset, segment.bytes - offset};
}

bool find_in_map(uintptr_t address, Place* place) {
  Map& all = map();
  const std::shared_lock<std::shared_mutex> lock(all.mutex);
  auto after = all.segments.upper_bound(address);
  if (after == all.segments.begin()) return false;
  const auto& [begin, segment] = *--after;
  if (!inside(address, begin, segment)) return false;
  fill(place, address, begin, segment);
  found.entries[found.next] = {begin, segment};
  found.next = (found.next + 1) % found.entries.size();
  return true;
}

}  // namespace

inline namespace v1 {

bool find_place(const void* pointer, Place* place) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  const uint64_t releases = map().releases.load(std::memory_order_acquire);
  if (found.releases != releases) {
    found = Found{};
    found.releases = releases;
  }
  for (const Found::Entry& entry : found.entries) {
    if (entry.segment.session != nullptr && inside(address, entry.begin, entry.segment)) {
      fill(place, address, entry.begin, entry.segment);
      return true;
    }
  }
  return find_in_map(address, place);
}

}  // namespace v1

void* reserve_addresses(Session* session, uint64_t buffer_id, uint64_t bytes) {
  if (bytes > kLongest) return nullptr;
  const uint64_t reserved = (bytes + kPage - 1) / kPage * kPage + kPage;
  void* const range =
      mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return nullptr;
  const std::unique_lock<std::shared_mutex> lock(map().mutex);
  map().segments[reinterpret_cast<uintptr_t>(range)] = {session, buffer_id, bytes, reserved};
  return range;
}

bool release_addresses(const void* pointer, Place* place) {
  const auto begin = reinterpret_cast<uintptr_t>(pointer);
  Map& all = map();
  const std::unique_lock<std::shared_mutex> lock(all.mutex);
  const auto entry = all.segments.find(begin);
  if (entry == all.segments.end()) return false;
  if (place != nullptr) fill(place, begin, begin, entry->second);
  all.releases.fetch_add(1, std::memory_order_release);
  munmap(const_cast<void*>(pointer), entry->second.reserved);
  all.segments.erase(entry);
  return true;
}

void release_addresses_of(const Session* session) {
  Map& all = map();
  const std::unique_lock<std::shared_mutex> lock(all.mutex);
  all.releases.fetch_add(1, std::memory_order_release);
  for (auto entry = all.segments.begin(); entry != all.segments.end();) {
    if (entry->second.session != session) {
      ++entry;
      continue;
    }
    munmap(reinterpret_cast<void*>(entry->first), entry->second.reserved);
    entry = all.segments.erase(entry);
  }
}

}  // namespace aclnn::runtime
