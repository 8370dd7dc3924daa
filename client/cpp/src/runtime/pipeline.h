// The commands of one context on the server: they go out in order over one open call of Submit, and
// nobody waits but for an answer that is wanted.
//
// Commands that come while requests are under way are gathered, and go as one request when an
// answer comes, when there are many, or when somebody waits. A connection that breaks is made
// again, and what has not been answered is sent again: the server knows each request by its number
// and applies it once. Only when the server is gone, does not answer for long, or has a reason of
// its own to end the call, is it over.
#pragma once

#include <grpcpp/completion_queue.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/batch.h"
#include "runtime/channel.h"

namespace aclnn::runtime {

class Pipeline {
 public:
  // Opens the call and starts the threads.
  Pipeline(const Channel& channel, std::string context_id);

  ~Pipeline();

  // Sends a command. Waits only while too much is under way.
  //
  // urgent: somebody waits for its outcome. Where this gives a failure, nothing was sent and the
  // command's completion is not told.
  Error submit(const Command& command, bool urgent);

  // Why nothing can be sent any more; no error while something can.
  Error broken();

  // Ends the call; what is under way fails. Returns when the threads have ended.
  void close();

 private:
  struct Call;
  using Clock = std::chrono::steady_clock;

  // All of these are called with the mutex.
  void add(const Command& command);
  void gather();
  bool worth_sending() const;
  void flush();
  void open_call();
  void begin_reading();
  void begin_finishing();
  bool worth_another_call(const Error& error);

  // The thread that sends what was gathered when the moment is over.
  void watch();

  // The thread that reads answers.
  void run();
  bool connect();
  void take_note(void* tag, bool ok);
  void take_answer();
  bool finished();
  void end_all(const Error& error);

  const Channel& channel_;
  const std::string context_id_;
  std::unique_ptr<grpc::CompletionQueue> queue_ = std::make_unique<grpc::CompletionQueue>();

  std::mutex mutex_;
  std::condition_variable changed_;  // there is room, or it is to be closed
  std::unique_ptr<Call> call_;
  std::deque<std::unique_ptr<Batch>> batches_;  // unanswered ones, then those to be sent
  size_t sent_ = 0;                             // of them, over this call
  uint64_t last_number_ = 0;
  uint64_t answered_ = 0;
  size_t outstanding_commands_ = 0;
  size_t outstanding_bytes_ = 0;
  bool urgent_ = false;
  bool wanted_ = false;  // something is to be sent when the connection has taken what is on its way
  // Of what was gathered and not sent.
  bool gathering_ = false;
  Clock::time_point gathering_since_;
  bool watching_ = false;  // the thread looks by itself
  std::condition_variable gathered_;
  bool closing_ = false;
  Error broken_;
  // Of a connection that broke.
  int attempts_ = 0;
  Clock::time_point broken_at_;
  Clock::time_point open_at_;

  std::thread reader_;
  std::thread watcher_;
};

}  // namespace aclnn::runtime
