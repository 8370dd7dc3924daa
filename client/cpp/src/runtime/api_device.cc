// Devices, contexts, options.
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <set>
#include <string>

#include "runtime/api.h"
#include "runtime/environment.h"
#include "runtime/session_state.h"
#include "runtime/waiting.h"

namespace aclnn::runtime {
namespace {

// Chips by the product names that the server knows; a server that computes on a host, for all
// products alike, is taken for the newest.
//
// Source of the numbers: the vendor's platform_config/<chip>.ini, as public documents quote it.
struct Chip {
  const char* product;
  const char* name;
  int64_t cube_cores;  // 0: not known, here and below
  int64_t vector_cores;
  int64_t cache_bytes;  // of the second level
};

constexpr std::array<Chip, 7> kChips{{
    {"reference", "Ascend950PR_9599", 32, 64, 0},
    {"ascend950", "Ascend950PR_9599", 32, 64, 0},
    {"ascend910_93", "Ascend910_9392", 24, 48, 192 << 20},
    {"ascend910b", "Ascend910B2", 24, 48, 192 << 20},
    {"ascend910", "Ascend910A", 32, 0, 0},
    {"ascend310p", "Ascend310P3", 0, 0, 0},
    {"ascend310b", "Ascend310B1", 0, 0, 0},
}};

const Chip* chip_of(const std::string& product) {
  for (const Chip& chip : kChips) {
    if (product == chip.product) return &chip;
  }
  return nullptr;
}

// What programs are told the chip is.
std::string chip_name(const std::string& product) {
  const std::string named = variable("ACLNN_SOC_NAME");
  if (!named.empty()) return named;
  const Chip* const chip = chip_of(product);
  return chip == nullptr ? product : chip->name;
}

Error check_device(uint32_t device) {
  ServerInfo info;
  if (Error error = server_info(&info)) return error;
  if (device < info.device_count) return {};
  return {ACL_ERROR_RT_INVALID_DEVICEID,
          "deviceId is " + std::to_string(device) + "; the server has " +
              std::to_string(info.device_count) + ", counted from 0"};
}

Error capability(uint32_t device, aclDeviceInfo what, int64_t* value) {
  if (value == nullptr) return null_pointer("value");
  ServerInfo info;
  if (Error error = server_info(&info)) return error;
  if (Error error = check_device(device)) return error;
  const Chip* const chip = chip_of(info.soc);
  int64_t known = 0;
  if (chip != nullptr && what == ACL_DEVICE_INFO_AI_CORE_NUM) known = chip->cube_cores;
  if (chip != nullptr && what == ACL_DEVICE_INFO_VECTOR_CORE_NUM) known = chip->vector_cores;
  if (chip != nullptr && what == ACL_DEVICE_INFO_L2_SIZE) known = chip->cache_bytes;
  if (what < ACL_DEVICE_INFO_AI_CORE_NUM || what > ACL_DEVICE_INFO_L2_SIZE) {
    return invalid("deviceInfo", std::to_string(what), "0 to 2");
  }
  *value = known;
  return {};
}

// Options that a program may set; they change nothing here, and can be read again.
std::array<std::atomic<int64_t>, 4> options{};

Error check_option(aclSysParamOpt opt) {
  if (opt >= ACL_OPT_DETERMINISTIC && opt <= ACL_OPT_ENABLE_KERNEL_EARLY_START) return {};
  return invalid("opt", std::to_string(opt), "options are 0 to 3");
}

Error get_option(aclSysParamOpt opt, int64_t* value) {
  if (value == nullptr) return null_pointer("value");
  if (Error error = check_option(opt)) return error;
  *value = options[static_cast<size_t>(opt)];
  return {};
}

Error set_option(aclSysParamOpt opt, int64_t value) {
  if (Error error = check_option(opt)) return error;
  options[static_cast<size_t>(opt)] = value;
  return {};
}

// A context besides a device's primary one, with a default stream of its own.
Error create_context(int device, aclrtContext* context) {
  std::shared_ptr<Context> before;
  const bool had_one = !current(&before);
  if (Error error = set_device(device)) return error;
  auto created = std::make_shared<Context>();
  std::shared_ptr<Context> primary;
  if (Error error = current(&primary)) return error;
  set_current(had_one ? before : nullptr);
  created->session = primary->session;
  if (Error error = create_stream(*primary->session, 0, 0, &created->default_stream)) return error;
  created->handle = contexts().add(created);
  *context = created->handle;
  set_current(created);
  return {};
}

Error synchronize_device(int64_t limit_ms) {
  std::shared_ptr<Context> context;
  if (Error error = current(&context)) return error;
  return synchronize_all(*context->session, limit_ms);
}

}  // namespace
}  // namespace aclnn::runtime

using namespace aclnn::runtime;

// --- devices -----------------------------------------------------------------

aclError aclrtSetDevice(int32_t deviceId) {
  return exported([&] { return set_device(deviceId); });
}

aclError aclrtResetDevice(int32_t deviceId) {
  return exported([&] { return reset_device(deviceId, false); });
}

aclError aclrtResetDeviceForce(int32_t deviceId) {
  return exported([&] { return reset_device(deviceId, true); });
}

aclError aclrtGetDevice(int32_t* deviceId) {
  return exported([&]() -> Error {
    if (deviceId == nullptr) return null_pointer("deviceId");
    std::shared_ptr<Context> context;
    if (Error error = current(&context)) return error;
    *deviceId = context->session->device;
    return {};
  });
}

aclError aclrtGetDeviceCount(uint32_t* count) {
  return exported([&]() -> Error {
    if (count == nullptr) return null_pointer("count");
    ServerInfo info;
    if (Error error = server_info(&info)) return error;
    *count = info.device_count;
    return {};
  });
}

aclError aclrtGetRunMode(aclrtRunMode* runMode) {
  return exported([&]() -> Error {
    if (runMode == nullptr) return null_pointer("runMode");
    *runMode = ACL_HOST;
    return {};
  });
}

const char* aclrtGetSocName() {
  static std::mutex mutex;
  static auto* const names = new std::set<std::string>;  // what was told before stays valid
  const char* told = nullptr;
  exported([&]() -> Error {
    ServerInfo info;
    if (variable("ACLNN_SOC_NAME").empty()) {
      if (Error error = server_info(&info)) return error;
    }
    const std::lock_guard<std::mutex> lock(mutex);
    told = names->insert(chip_name(info.soc)).first->c_str();
    return {};
  });
  return told;
}

aclError aclrtSynchronizeDevice() {
  return exported([] { return synchronize_device(-1); });
}

aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout) {
  return exported([&] { return synchronize_device(timeout); });
}

aclError aclrtQueryDeviceStatus(int32_t deviceId, aclrtDeviceStatus* deviceStatus) {
  return exported([&]() -> Error {
    if (deviceStatus == nullptr) return null_pointer("deviceStatus");
    if (Error error = check_device(static_cast<uint32_t>(deviceId))) return error;
    *deviceStatus = ACL_RT_DEVICE_STATUS_NORMAL;
    return {};
  });
}

aclError aclrtDeviceCanAccessPeer(int32_t* canAccessPeer, int32_t deviceId, int32_t peerDeviceId) {
  return exported([&]() -> Error {
    if (canAccessPeer == nullptr) return null_pointer("canAccessPeer");
    if (Error error = check_device(static_cast<uint32_t>(deviceId))) return error;
    if (Error error = check_device(static_cast<uint32_t>(peerDeviceId))) return error;
    *canAccessPeer = deviceId == peerDeviceId ? 0 : 1;  // by way of this process
    return {};
  });
}

aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags) {
  return exported([&]() -> Error {
    if (flags != 0) return invalid("flags", std::to_string(flags), "it must be 0");
    return check_device(static_cast<uint32_t>(peerDeviceId));
  });
}

aclError aclrtDeviceDisablePeerAccess(int32_t peerDeviceId) {
  return exported([&] { return check_device(static_cast<uint32_t>(peerDeviceId)); });
}

aclError aclrtDeviceGetBareTgid(int32_t* pid) {
  return exported([&]() -> Error {
    if (pid == nullptr) return null_pointer("pid");
    *pid = getpid();
    return {};
  });
}

aclError aclGetDeviceCapability(uint32_t deviceId, aclDeviceInfo deviceInfo, int64_t* value) {
  return exported([&] { return capability(deviceId, deviceInfo, value); });
}

// --- options -----------------------------------------------------------------

aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode) {
  return exported([&]() -> Error {
    if (mode != ACL_RT_OVERFLOW_MODE_SATURATION && mode != ACL_RT_OVERFLOW_MODE_INFNAN) {
      return invalid("mode", std::to_string(mode), "modes are 0 and 1");
    }
    if (mode == ACL_RT_OVERFLOW_MODE_INFNAN) return {};
    return {ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            "mode is 0 (saturation); the server computes with infinities and NaN (mode 1)"};
  });
}

aclError aclrtGetDeviceSatMode(aclrtFloatOverflowMode* mode) {
  return exported([&]() -> Error {
    if (mode == nullptr) return null_pointer("mode");
    *mode = ACL_RT_OVERFLOW_MODE_INFNAN;
    return {};
  });
}

aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
  return exported([&] { return get_option(opt, value); });
}

aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
  return exported([&] { return set_option(opt, value); });
}

aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
  return exported([&] { return get_option(opt, value); });
}

aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
  return exported([&] { return set_option(opt, value); });
}

// Time limits of work are the server's to set: a stream's wait has a limit of its own.

aclError aclrtSetOpWaitTimeout(uint32_t) {
  return exported([] { return Error{}; });
}

aclError aclrtSetOpExecuteTimeOut(uint32_t) {
  return exported([] { return Error{}; });
}

aclError aclrtSetOpExecuteTimeOutWithMs(uint32_t) {
  return exported([] { return Error{}; });
}

// --- contexts ----------------------------------------------------------------

aclError aclrtCreateContext(aclrtContext* context, int32_t deviceId) {
  return exported([&]() -> Error {
    if (context == nullptr) return null_pointer("context");
    return create_context(deviceId, context);
  });
}

aclError aclrtDestroyContext(aclrtContext handle) {
  return exported([&]() -> Error {
    const std::shared_ptr<Context> context = contexts().find(handle);
    if (context == nullptr) {
      return {ACL_ERROR_RT_CONTEXT_NULL, "context is no context, or one that was destroyed"};
    }
    if (context == primary_context(*context->session)) {
      return {ACL_ERROR_RT_PARAM_INVALID, "context is its device's own; aclrtResetDevice ends it"};
    }
    contexts().take(handle);
    context->ended = true;
    const int device = context->session->device;
    if (Error error = destroy_stream(*context->default_stream)) return error;
    return reset_device(device, false);
  });
}

aclError aclrtSetCurrentContext(aclrtContext handle) {
  return exported([&]() -> Error {
    std::shared_ptr<Context> context = contexts().find(handle);
    if (context == nullptr) {
      return {ACL_ERROR_RT_CONTEXT_NULL, "context is no context, or one that was destroyed"};
    }
    set_current(std::move(context));
    return {};
  });
}

aclError aclrtGetCurrentContext(aclrtContext* handle) {
  return exported([&]() -> Error {
    if (handle == nullptr) return null_pointer("context");
    std::shared_ptr<Context> context;
    if (Error error = current(&context)) return error;
    *handle = context->handle;
    return {};
  });
}
