// A command, as it is handed over to be sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "runtime/completion.h"

namespace grpc {
class Slice;
}

namespace aclnn::runtime {

// One command to be sent.
struct Command {
  uint32_t kind = 0;                  // its field in aclnn.v1.Command
  std::string_view request;           // its message, encoded
  const grpc::Slice* bulk = nullptr;  // the data of a write_buffer, which is not in `request`
  char* into = nullptr;               // where the data of a read_buffer goes
  size_t into_bytes = 0;
  Completion* completion = nullptr;    // who waits for the outcome, if anybody does
  std::shared_ptr<Failures> failures;  // where a failure is kept, if nobody waits for it
};

}  // namespace aclnn::runtime
