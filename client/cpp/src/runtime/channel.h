// The connection to the server: its channel, and calls of one request and one answer.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "runtime/environment.h"
#include "runtime/error.h"

namespace aclnn::runtime {

// A connection of its own to the server. Nothing is sent before the first call. Thread-safe.
class Channel {
 public:
  explicit Channel(const Environment& environment);

  // Makes one call and waits for its answer.
  //
  // method: full name, "/aclnn.v1.DeviceService/…". request: encoded. doing: what for, to follow
  // "while" in a failure's text. limit: the longest wait; below 0 for any time.
  Error call(const char* method, std::string_view request, const char* doing,
             std::chrono::milliseconds limit, std::string* response) const;

  // The failure with the server's address in front, where it is one of the connection.
  Error named(Error error) const;

  // Adds what every call carries.
  void prepare(grpc::ClientContext* context) const;

  // Ends the connection; calls fail from now on.
  void close();

  // Null once it is closed.
  std::shared_ptr<grpc::Channel> grpc_channel() const;

 private:
  std::string address_;
  std::string authorization_;  // empty without a token
  mutable std::mutex mutex_;
  std::shared_ptr<grpc::Channel> channel_;
};

// Longest wait for an answer to a call that does not wait for work.
constexpr std::chrono::milliseconds kCallLimit{5000};

}  // namespace aclnn::runtime
