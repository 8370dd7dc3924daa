// One device's context on the server, as this process sees it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/command.h"
#include "runtime/completion.h"
#include "runtime/plans.h"
#include "runtime/session.h"

namespace aclnn::runtime {

class Channel;
class Pipeline;

// What the server allows a context; 0 is no limit.
struct Limits {
  uint64_t message_bytes = 0;
  uint64_t tensor_bytes = 0;
  uint64_t context_bytes = 0;
  uint64_t streams = 0;
  uint64_t queued_commands = 0;
  uint64_t events = 0;
};

// What the server told when the context was opened.
struct Opening {
  std::string context_id;
  std::string default_stream_id;
  Limits limits;
};

inline namespace v1 {

// Lives until the process ends, also when it has been closed, as handles may refer to it; then it
// has little in it.
class Session {
 public:
  Session(int device, std::unique_ptr<Channel> channel, Opening opening);
  ~Session() = delete;

  // Destroys the context on the server, with all that it holds, and ends the connection.
  void close();

  // An id for a buffer, an executor or an event, unique in the context.
  uint64_t next_id() { return next_id_.fetch_add(1, std::memory_order_relaxed); }

  // Sends a command inside Submit; see Pipeline::submit.
  Error submit(const Command& command, bool urgent);

  // Sends a command that nobody waits for. failures: where its failure is kept; null for the
  // session's own. Gives why nothing can be sent any more.
  Error post(uint32_t kind, std::string_view request, std::shared_ptr<Failures> failures = nullptr);

  // Sends a command and waits for its answer.
  Error ask(uint32_t kind, std::string_view request, std::string* response = nullptr);

  // Makes a call beside Submit, and waits for its answer for any time.
  Error call(const char* method, std::string_view request, const char* doing,
             std::string* response = nullptr) const;

  // Why nothing can be sent any more; no error while something can.
  Error broken() const;

  Plans& plans() { return plans_; }
  // Failures of commands that belong to no stream.
  const std::shared_ptr<Failures>& failures() const { return failures_; }

  const int device;
  const std::string context_id;
  const std::string default_stream_id;
  const Limits limits;

 private:
  Channel* const channel_;
  std::atomic<uint64_t> next_id_{1};
  std::shared_ptr<Failures> failures_ = std::make_shared<Failures>();
  Plans plans_;
  Pipeline* const pipeline_;
  std::atomic<bool> closed_{false};
};

}  // namespace v1

// Opens a context on a device of the server. Null with the failure.
Session* open_session(int device, Error* error);

// What the server is.
struct ServerInfo {
  uint32_t device_count = 0;
  std::string soc;
};

// Asks the server, once; the answer is kept.
Error server_info(ServerInfo* info);

// Forgets what is known of the server: the next call reads the environment anew.
void forget_server();

// Free and total bytes that a session's device has.
Error device_memory(const Session& session, uint64_t* free, uint64_t* total);

}  // namespace aclnn::runtime
