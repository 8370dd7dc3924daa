// Waiting for work on the server.
//
// A wait inside Submit is quick, but the commands of all other streams of the context come behind
// it. So a wait goes there for a moment, and work that takes longer is waited for beside, by a call
// of its own.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/error.h"

namespace aclnn::runtime {

// What is waited for: one of the two requests, both of which name a context and take a time limit.
struct Wait {
  uint32_t command;        // field in aclnn.v1.Command
  const char* method;      // the same as a call of its own
  const char* doing;       // to follow "while" in a failure's text
  uint32_t context_field;  // of the request
  uint32_t timeout_field;  // of the request
  int timeout_code;        // what a wait ends with that took too long
  std::string named;       // the request's other fields, encoded
};

// Whether a failure is a wait's own that took too long, and not that of work which ended with the
// same code.
inline bool is_timeout(const Error& error, int timeout_code) {
  return error.code == timeout_code && !error.of_operator && !error.of_parameter;
}

// Waits; `limit_ms` below 0 is no limit.
Error wait_for(Session& session, const Wait& wait, int64_t limit_ms);

// Waits for the work of a stream of the session, of all where the id is empty.
Error wait_for_stream(Session& session, const std::string& stream_id, int64_t limit_ms);

// Waits for the latest mark of an event.
Error wait_for_event(Session& session, uint64_t event_id, int64_t limit_ms);

// The request of the wait for a stream without a limit, inside Submit.
std::string waiting_for_stream(const std::string& stream_id);

}  // namespace aclnn::runtime
