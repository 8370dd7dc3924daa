// Requests of Submit: commands on their way to the server, and the answers that come back.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/command.h"

namespace aclnn::runtime {

// A command that has not been answered.
struct Pending {
  uint32_t kind;
  char* into;
  size_t into_bytes;
  Completion* completion;
  std::shared_ptr<Failures> failures;

  void finish(const Outcome& outcome) const;
};

// The commands of one request, in order.
class Batch {
 public:
  // Commands and bytes (of the request or of its answer, whichever are more) of one request that no
  // further command may exceed.
  static constexpr size_t kMostBytes = (1 << 20) + (1 << 16);

  void add(const Command& command);

  // Whether one more command may join.
  bool has_room_for(const Command& command) const;

  // The request. head: its other fields, encoded.
  grpc::ByteBuffer message(const std::string& head);

  uint64_t number = 0;  // set when it is sent for the first time
  const std::vector<Pending>& pendings() const { return pendings_; }
  size_t weight() const { return weight_; }
  bool sent() const { return number != 0; }

 private:
  void close_open_part();

  std::string open_;                 // encoded commands behind those in slices_
  std::vector<grpc::Slice> slices_;  // encoded commands and bulk data
  std::vector<Pending> pendings_;
  size_t weight_ = 0;
};

// The answer to a request.
class BatchAnswer {
 public:
  // Reads an answer; bulk data goes where its command wants it. False where it does not fit the
  // commands.
  bool read(const grpc::ByteBuffer& message, const Batch& batch);

  // Tells everyone.
  void finish(const Batch& batch) const;

 private:
  struct Result {
    uint32_t kind = 0;
    std::string_view response;
    bool misfit = false;  // bulk data is not as long as what was asked for
  };

  bool read_result(class SliceCursor& cursor, uint64_t size, const Pending& pending);

  std::vector<grpc::Slice> slices_;  // what the views point into
  std::deque<std::string> joined_;   // or these, where a message lies in two slices
  std::vector<Result> results_;
};

// A slice that owns a string's bytes.
grpc::Slice slice_of(std::string bytes);

}  // namespace aclnn::runtime
