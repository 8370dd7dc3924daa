// What ACL's opaque handles stand for: contexts, streams, events.
//
// A handle is a number that is no address and is never given out twice, so that one that was
// destroyed, or never was, is told from one that lives.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>

#include "runtime/command.h"
#include "runtime/completion.h"
#include "runtime/error.h"

namespace aclnn::runtime {

// The living objects of one kind. Thread-safe.
template <typename T>
class Handles {
 public:
  // kind: the handles' upper 16 bits, outside of what an address can have.
  explicit Handles(uint16_t kind) : next_(static_cast<uint64_t>(kind) << 48 | 16) {}

  void* add(std::shared_ptr<T> object) {
    const std::unique_lock<std::shared_mutex> lock(mutex_);
    const uint64_t handle = next_;
    next_ += 16;
    objects_[handle] = std::move(object);
    return reinterpret_cast<void*>(handle);
  }

  // Null where there is none.
  std::shared_ptr<T> find(const void* handle) const {
    const std::shared_lock<std::shared_mutex> lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<uint64_t>(handle));
    return found == objects_.end() ? nullptr : found->second;
  }

  std::shared_ptr<T> take(const void* handle) {
    const std::unique_lock<std::shared_mutex> lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<uint64_t>(handle));
    if (found == objects_.end()) return nullptr;
    std::shared_ptr<T> taken = std::move(found->second);
    objects_.erase(found);
    return taken;
  }

  void for_each(const std::function<void(const std::shared_ptr<T>&)>& act) const {
    const std::shared_lock<std::shared_mutex> lock(mutex_);
    for (const auto& [handle, object] : objects_) act(object);
  }

  void remove_if(const std::function<bool(const T&)>& ended) {
    const std::unique_lock<std::shared_mutex> lock(mutex_);
    for (auto entry = objects_.begin(); entry != objects_.end();) {
      entry = ended(*entry->second) ? objects_.erase(entry) : std::next(entry);
    }
  }

 private:
  mutable std::shared_mutex mutex_;
  uint64_t next_;
  std::unordered_map<uint64_t, std::shared_ptr<T>> objects_;
};

// An ordered queue of work on a device.
class Stream {
 public:
  Stream(Session& session, std::string id, std::string full_id)
      : session(session), id(std::move(id)), full_id(std::move(full_id)), number(next_number()) {}

  // Sends a command of this stream, without waiting. What it fails with later is kept in failures.
  // Gives why it cannot be sent; its completion is not told then.
  Error submit(Command command);

  // Waits until the work that was sent before is done, and gives the first failure since the last
  // time, or that `limit_ms` have passed (below 0: no limit).
  Error synchronize(int64_t limit_ms);

  // Whether work may be under way that nobody has waited for.
  bool dirty() const { return submitted.load() != synchronized.load(); }

  Session& session;
  const std::string id;       // in commands; empty for the default stream of the session
  const std::string full_id;  // never empty
  const int32_t number;       // of the process's streams
  uint32_t priority = 0;
  uint32_t flags = 0;
  std::atomic<bool> stops_on_failure{false};  // takes no more work once something has failed
  const std::shared_ptr<Failures> failures = std::make_shared<Failures>();
  std::atomic<uint64_t> submitted{0};     // commands
  std::atomic<uint64_t> synchronized{0};  // commands that are known to be done
  std::atomic<uint64_t> queued{0};        // commands since the server was last made to wait

 private:
  static int32_t next_number();
};

// A mark in a stream.
class Event {
 public:
  // Queues the mark in a stream.
  Error record(const std::shared_ptr<Stream>& stream);

  // Forgets the mark.
  void reset();

  // Lets a stream wait for the latest mark.
  Error hold(const std::shared_ptr<Stream>& stream);

  // Whether the latest mark has been passed; true where there is none.
  Error query(bool* passed);

  // Waits for the latest mark.
  Error synchronize(int64_t limit_ms);

  // Ends it on the server.
  void destroy();

  // Milliseconds between two marks.
  static Error elapsed(Event& start, Event& end, float* milliseconds);

 private:
  // The mark as it is now.
  struct Mark {
    std::shared_ptr<Stream> stream;  // null where there is none
    uint64_t event_id = 0;
    uint64_t number = 0;  // of the stream's commands, up to the mark
  };

  Mark mark();
  static bool known_passed(const Mark& mark);

  std::mutex mutex_;
  Mark mark_;
  Session* session_ = nullptr;  // where event_id_ was created
  uint64_t event_id_ = 0;
};

// A context of ACL: a device, and a default stream. All contexts of a device share its session.
struct Context {
  Session* session = nullptr;
  std::shared_ptr<Stream> default_stream;
  void* handle = nullptr;
  std::atomic<bool> ended{false};
};

Handles<Stream>& streams();
Handles<Event>& events();
Handles<Context>& contexts();

// The stream of a handle, for work of a session; the default stream where the handle is null. Fails
// for a handle that is none (107017), or of another device's (107003).
Error find_stream(const void* handle, Session& session, std::shared_ptr<Stream>* stream);

// The same for work of whatever device the stream, or the thread's context, is on.
Error find_stream(const void* handle, std::shared_ptr<Stream>* stream);

// Creates a stream on the server.
Error create_stream(Session& session, uint32_t priority, uint32_t flags,
                    std::shared_ptr<Stream>* stream);

// Ends a stream on the server, with the work that it has queued.
Error destroy_stream(const Stream& stream);

// Whether a stream's work is done, as the server tells.
Error ask_complete(const Stream& stream, bool* complete);

// Waits for the work of all streams of a session, and gives the first failure.
Error synchronize_all(Session& session, int64_t limit_ms);

// A failure of a kernel is told by the code that the vendor's runtime has for it.
Error as_runtime_failure(Error error);

}  // namespace aclnn::runtime
