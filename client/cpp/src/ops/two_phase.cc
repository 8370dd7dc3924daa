// The two phases of every operator: aclnnServeGetWorkspaceSize and aclnnServeExecute.
//
// All that phase two needs is noted in phase one, so the handles may be destroyed and the tensors
// be given other addresses between the two; only the device memory has to stay.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "aclnn/aclnn_serve.h"
#include "meta/executors.h"
#include "meta/refusals.h"
#include "meta/shapes.h"
#include "ops/arguments.h"

namespace aclnn::ops {
namespace {

using meta::Executor;
using meta::kInvalid;
using meta::kNullPointer;
using meta::Slot;

int refuse(int code, const aclnnServeOperator& op, const std::string& problem) {
  return runtime::fail(code, std::string(op.name) + ": " + problem);
}

// Whether phase one tells the workspace that the server needs. By default it answers 0 and the
// server lends its own, so that callers need not keep one; ACLNN_WORKSPACE=caller is for those who
// want to see it.
bool callers_bring_workspace() {
  static const bool asked = [] {
    const char* value = std::getenv("ACLNN_WORKSPACE");
    return value != nullptr && std::strcmp(value, "caller") == 0;
  }();
  return asked;
}

// --- phase one ---------------------------------------------------------------------------------

struct Placement {
  runtime::Session* session = nullptr;  // of the first tensor that lies in device memory
  // Of the slots, in their order.
  std::vector<runtime::Place> places;
  std::vector<bool> found;

  void clear() {
    session = nullptr;
    places.clear();
    found.clear();
  }
};

void find_places(const Arguments& arguments, Placement* placement) {
  placement->clear();
  for (const void* address : arguments.addresses) {
    runtime::Place place;
    const bool found = address != nullptr && runtime::find_place(address, &place);
    if (found && placement->session == nullptr) placement->session = place.session;
    placement->places.push_back(place);
    placement->found.push_back(found);
  }
}

std::string name_of(const aclnnServeOperator& op, const Slot& slot) {
  const bool in_list = op.parameters[slot.argument].kind == ACLNN_SERVE_TENSOR_LIST;
  return slot.parameter + (in_list ? "[" + std::to_string(slot.element) + "]" : "");
}

// Why a tensor cannot lie where it does; 0 where it can.
int check_place(const aclnnServeOperator& op, const Arguments& arguments,
                const Placement& placement, size_t index) {
  const Slot& slot = arguments.slots[index];
  const runtime::Place& place = placement.places[index];
  if (!placement.found[index]) {
    if (!arguments.has_elements[index]) return OK;
    if (arguments.addresses[index] == nullptr) {
      const std::string problem = " has no storage: its data address is null";
      return refuse(kNullPointer, op, name_of(op, slot) + problem);
    }
    return refuse(kInvalid, op, name_of(op, slot) + " does not lie in device memory");
  }
  if (place.session != placement.session) {
    return refuse(kInvalid, op,
                  name_of(op, slot) + " lies on another device than the tensors before it");
  }
  if (slot.bytes > place.bytes_left) {
    return refuse(kInvalid, op,
                  name_of(op, slot) + " has a storage of " + std::to_string(slot.bytes) +
                      " bytes; " + std::to_string(place.bytes_left) +
                      " are left in the allocation from its data address on");
  }
  return OK;
}

int place_slots(const aclnnServeOperator& op, const Placement& placement, Arguments* arguments) {
  for (size_t index = 0; index < arguments->slots.size(); ++index) {
    const int code = check_place(op, *arguments, placement, index);
    if (code != OK) return code;
    if (placement.found[index]) {
      arguments->slots[index].buffer_id = placement.places[index].buffer_id;
      arguments->slots[index].byte_offset = placement.places[index].byte_offset;
    }
  }
  return OK;
}

int plan(const aclnnServeOperator& op, const aclnnServeArgument* values,
         std::shared_ptr<Executor>* planned) {
  // Kept by each thread: a call that equals one before allocates its executor and nothing else.
  thread_local Arguments arguments;
  thread_local Placement placement;
  int code = read_arguments(op, values, &arguments);
  if (code != OK) return code;
  find_places(arguments, &placement);
  if (placement.session == nullptr) placement.session = runtime::current_session(&code);
  if (placement.session == nullptr) return code;
  auto executor = std::make_shared<Executor>();
  code = runtime::plan(*placement.session, op.name, arguments.encoded, &executor->plan,
                       &executor->workspace_bytes);
  if (code != OK) return code;
  // After the operator's own checks, whose order is the vendor's.
  code = place_slots(op, placement, &arguments);
  if (code != OK) return code;
  executor->operator_name = op.name;
  executor->session = placement.session;
  executor->inputs = arguments.inputs;
  executor->slots.assign(arguments.slots.begin(), arguments.slots.end());
  *planned = std::move(executor);
  return OK;
}

// --- phase two ---------------------------------------------------------------------------------

void bind(Executor& executor, std::vector<runtime::Storage>* storages) {
  std::unique_lock<std::mutex> lock(executor.mutex, std::defer_lock);
  if (executor.repeatable) lock.lock();
  storages->clear();
  for (const Slot& slot : executor.slots) {
    if (slot.buffer_id == 0) continue;
    storages->push_back({slot.argument, slot.element, slot.buffer_id, slot.byte_offset});
  }
}

// Lets outputs whose shape only the run tells take it from the answer; null where there are none.
runtime::ExecuteDone taking_shapes(const aclnnServeOperator& op, const Executor& executor) {
  bool shaped = false;
  for (uint64_t i = 0; i < op.parameterNum; ++i) {
    shaped = shaped || op.parameters[i].output == ACLNN_SERVE_SHAPED;
  }
  if (!shaped) return nullptr;
  return [outputs = meta::ShapedOutputs(executor)](int code, std::string_view response) {
    if (code == OK) outputs.take(response);
  };
}

int run(const aclnnServeOperator& op, void* workspace, uint64_t workspace_bytes,
        aclOpExecutor* handle, aclrtStream stream) {
  if (handle == nullptr) return refuse(kNullPointer, op, "executor is null");
  int code = OK;
  const std::shared_ptr<Executor> executor = meta::use_executor(op.name, handle, &code);
  if (executor == nullptr) return code;
  if (std::strcmp(executor->operator_name, op.name) != 0) {
    return refuse(kInvalid, op, std::string("executor was planned for ") + executor->operator_name);
  }
  if (workspace == nullptr && workspace_bytes != 0) {
    return refuse(kNullPointer, op,
                  "workspace is null with a workspaceSize of " + std::to_string(workspace_bytes));
  }
  // Phase one said 0, unless callers bring their own; a workspace that would not do is not used
  // then.
  const uint64_t needed = executor->workspace_bytes;
  if (needed == 0 || (workspace_bytes < needed && !callers_bring_workspace())) {
    workspace = nullptr;
    workspace_bytes = 0;
  } else if (workspace_bytes < needed) {
    return refuse(kInvalid, op,
                  "workspaceSize is " + std::to_string(workspace_bytes) + "; phase one planned " +
                      std::to_string(needed));
  }
  thread_local std::vector<runtime::Storage> storages;
  bind(*executor, &storages);
  return runtime::execute(executor->plan, stream, storages.data(), storages.size(), workspace,
                          workspace_bytes, taking_shapes(op, *executor));
}

}  // namespace
}  // namespace aclnn::ops

aclnnStatus aclnnServeGetWorkspaceSize(const aclnnServeOperator* op,
                                       const aclnnServeArgument* arguments, uint64_t* workspaceSize,
                                       aclOpExecutor** executor) try {
  const bool given = op != nullptr && (arguments != nullptr || op->parameterNum == 0);
  if (!given) return aclnn::meta::refuse_null("aclnnServeGetWorkspaceSize", "op or arguments");
  if (workspaceSize == nullptr || executor == nullptr) {
    const char* missing = workspaceSize == nullptr ? "workspaceSize" : "executor";
    return aclnn::meta::refuse_null(op->name, missing);
  }
  std::shared_ptr<aclnn::meta::Executor> planned;
  const int code = aclnn::ops::plan(*op, arguments, &planned);
  if (code != OK) return code;
  *workspaceSize = aclnn::ops::callers_bring_workspace() ? planned->workspace_bytes : 0;
  *executor = aclnn::meta::keep_executor(std::move(planned));
  return OK;
} catch (const std::exception& error) {
  return aclnn::ops::refuse(ACL_ERROR_BAD_ALLOC, *op, error.what());
}

aclnnStatus aclnnServeExecute(const aclnnServeOperator* op, void* workspace, uint64_t workspaceSize,
                              aclOpExecutor* executor, aclrtStream stream) try {
  if (op == nullptr) return aclnn::meta::refuse_null("aclnnServeExecute", "op");
  return aclnn::ops::run(*op, workspace, workspaceSize, executor, stream);
} catch (const std::exception& error) {
  return aclnn::ops::refuse(ACL_ERROR_BAD_ALLOC, *op, error.what());
}
