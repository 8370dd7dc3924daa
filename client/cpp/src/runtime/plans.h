// Planned calls of a session, known by what was planned, so that an equal call needs no answer.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "runtime/session.h"

namespace aclnn::runtime {
inline namespace v1 {

// An executor on the server without storages, which can be run any number of times.
class Plan {
 public:
  Plan(Session& session, uint64_t executor_id, uint64_t workspace_bytes)
      : session(session), executor_id(executor_id), workspace_bytes(workspace_bytes) {}
  // Ends the executor; work that it queued still runs.
  ~Plan();
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  Session& session;
  const uint64_t executor_id;
  const uint64_t workspace_bytes;
};

}  // namespace v1

// The plans of the latest calls. Thread-safe.
class Plans {
 public:
  // Null where there is none.
  std::shared_ptr<Plan> find(std::string_view operator_name, std::string_view arguments);

  // Keeps a plan; the one that was not used for longest is forgotten where there are too many.
  void keep(std::string_view operator_name, std::string_view arguments, std::shared_ptr<Plan> plan);

  void clear();

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<Plan> plan;
  };
  using Order = std::list<Entry>;  // the latest first

  std::mutex mutex_;
  Order order_;
  std::unordered_map<std::string_view, Order::iterator> entries_;  // keys lie in order_
};

}  // namespace aclnn::runtime
