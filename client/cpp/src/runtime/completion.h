// How the outcome of a command is told to whoever sent it.
#pragma once

#include <semaphore.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>

#include "runtime/error.h"

namespace aclnn::runtime {

// What became of one command.
struct Outcome {
  Error error;
  std::string_view response;  // the response message, encoded, where there is no error
};

// Told of an outcome, once, by the thread that reads answers: it must not wait, nor send anything.
class Completion {
 public:
  virtual void finish(const Outcome& outcome) = 0;

 protected:
  ~Completion() = default;
};

// The answer that one thread waits for.
class Answer final : public Completion {
 public:
  Answer() { sem_init(&done_, 0, 0); }
  ~Answer() { sem_destroy(&done_); }
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

  void finish(const Outcome& outcome) override {
    error_ = outcome.error;
    response_ = outcome.response;
    sem_post(&done_);
  }

  // Waits, and gives the failure.
  const Error& wait() {
    while (sem_wait(&done_) != 0) {  // a signal's handler ran
    }
    return error_;
  }

  const std::string& response() const { return response_; }

 private:
  sem_t done_;
  Error error_;
  std::string response_;
};

// The end of several commands that one thread waits for.
class Countdown final : public Completion {
 public:
  // Before each command that is sent.
  void expect() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++left_;
  }

  void finish(const Outcome& outcome) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!error_) error_ = outcome.error;
    --left_;
    changed_.notify_all();
  }

  // Waits until at most `left` have not ended, and gives the first failure.
  Error wait(int left = 0) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return left_ <= left; });
    return error_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int left_ = 0;
  Error error_;
};

// The first failure of commands that nobody waited for, until somebody can be told: what follows in
// the same stream mostly follows from it.
class Failures {
 public:
  void keep(const Error& error) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!first_) first_ = error;
    any_.store(true, std::memory_order_release);
  }

  Error take() {
    if (!any()) return {};
    const std::lock_guard<std::mutex> lock(mutex_);
    any_.store(false, std::memory_order_release);
    return std::exchange(first_, Error{});
  }

  bool any() const { return any_.load(std::memory_order_acquire); }

 private:
  std::mutex mutex_;
  std::atomic<bool> any_{false};
  Error first_;
};

}  // namespace aclnn::runtime
