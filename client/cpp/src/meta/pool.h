// Memory of one kind of handle, handed out again and again, and never given back to the system.
//
// So a handle that was destroyed can still be looked at: its tag tells that it is over, and the
// call is refused instead of reading what is not there any more. Objects also keep the room of
// their vectors, so that making one allocates nothing once a program has reached its working set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <new>

namespace aclnn::meta {

inline constexpr uint64_t kOver = 0x6f7665722e2e2e2eULL;

// T has a member `std::atomic<uint64_t> tag` and a constant `kTag` that no other kind has.
template <class T>
class Pool {
 public:
  // A live object, with the content that its last owner left.
  T* take() {
    T* object = nullptr;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (idle_.size() > kResting) {
        object = idle_.front();
        idle_.pop_front();
      }
    }
    if (object == nullptr) object = new T;
    object->tag.store(T::kTag, std::memory_order_release);
    return object;
  }

  // Ends an object; false where it is over already.
  bool give(T* object) {
    uint64_t live = T::kTag;
    if (!object->tag.compare_exchange_strong(live, kOver, std::memory_order_acq_rel)) return false;
    std::lock_guard<std::mutex> lock(mutex_);
    try {
      idle_.push_back(object);
    } catch (const std::bad_alloc&) {
      // It is over all the same; its memory is lost.
    }
    return true;
  }

  // The pool of the process. It is never destroyed: handles are destroyed by other libraries'
  // static objects, too.
  static Pool& instance() {
    static Pool* pool = new Pool;
    return *pool;
  }

 private:
  // Objects that rest before the first of them is used again: the longer, the later a stale handle
  // is a live one.
  static constexpr size_t kResting = 256;

  std::mutex mutex_;
  std::deque<T*> idle_;
};

// The object of a handle; null where the handle is null, over, or of another kind.
template <class T>
T* live(const T* handle) {
  if (handle == nullptr || reinterpret_cast<uintptr_t>(handle) % alignof(T) != 0) return nullptr;
  if (handle->tag.load(std::memory_order_acquire) != T::kTag) return nullptr;
  return const_cast<T*>(handle);  // NOLINT: the C API says const where it destroys
}

}  // namespace aclnn::meta
