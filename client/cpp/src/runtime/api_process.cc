// Start and end of ACL, versions, the log.
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>

#include "runtime/api.h"
#include "runtime/environment.h"
#include "runtime/json.h"

namespace aclnn::runtime {
namespace {

// The version of CANN whose interface this is, where ACLNN_CANN_VERSION says no other.
constexpr const char* kCannVersion = "9.2.0";

std::mutex starting;
uint64_t references = 0;   // calls of aclInit that have not been ended
bool initialized = false;  // ever

Error read_config(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  if (file) content << file.rdbuf();
  if (!file && !(file.eof())) {
    return {ACL_ERROR_INVALID_FILE,
            std::string("configPath is '") + path + "', which cannot be read"};
  }
  std::map<std::string, std::string> scalars;
  if (content.str().empty()) return {};
  if (!read_json(content.str(), &scalars)) {
    return {ACL_ERROR_PARSE_FILE,
            std::string("configPath is '") + path + "', which is no JSON object"};
  }
  const auto device = scalars.find("defaultDevice.default_device");
  if (device != scalars.end()) set_default_device(std::atoi(device->second.c_str()));
  const auto mode = scalars.find("err_msg_mode");
  share_recent_texts(mode != scalars.end() && mode->second == "1");
  return {};
}

Error finalize(uint64_t left) {
  const std::lock_guard<std::mutex> lock(starting);
  if (references == 0) {
    return initialized ? Error{ACL_ERROR_REPEAT_FINALIZE, "ACL has been finalized already"}
                       : Error{ACL_ERROR_UNINITIALIZE, "aclFinalize without aclInit"};
  }
  references = left;
  if (references == 0) end_all_sessions();
  return {};
}

std::string cann_version() {
  const std::string named = variable("ACLNN_CANN_VERSION");
  return named.empty() ? kCannVersion : named;
}

// Copies a text into an array; what does not fit is cut off.
template <size_t size>
void put_text(char (&array)[size], const std::string& text) {
  std::memset(array, 0, size);
  std::memcpy(array, text.data(), std::min(text.size(), size - 1));
}

// The version's part between two dots, counted from 0; empty where there are not so many.
std::string part_of(const std::string& version, int wanted) {
  std::istringstream parts(version);
  std::string part;
  for (int index = 0; std::getline(parts, part, '.'); ++index) {
    if (index == wanted) return part;
  }
  return "";
}

// As the vendor counts: 10000000 for the major version, 100000 for the minor one, 1000 for the
// patch.
int version_number(const std::string& version) {
  const auto number = [&](int part) { return std::atoi(part_of(version, part).c_str()); };
  return number(0) * 10000000 + number(1) * 100000 + number(2) * 1000;
}

}  // namespace
}  // namespace aclnn::runtime

using namespace aclnn::runtime;

aclError aclInit(const char* configPath) {
  return exported([&]() -> Error {
    const std::lock_guard<std::mutex> lock(starting);
    if (references++ != 0) {
      return {ACL_ERROR_REPEAT_INITIALIZE, "ACL has been initialized already"};
    }
    Error error;
    if (configPath != nullptr) error = read_config(configPath);
    if (error) references = 0;
    initialized = !error;
    return error;
  });
}

aclError aclFinalize() {
  return exported([] { return finalize(0); });
}

aclError aclFinalizeReference(uint64_t* refCount) {
  return exported([&]() -> Error {
    uint64_t left = 0;
    {
      const std::lock_guard<std::mutex> lock(starting);
      left = references == 0 ? 0 : references - 1;
    }
    if (Error error = finalize(left)) return error;
    if (refCount != nullptr) *refCount = left;
    return {};
  });
}

aclError aclrtGetVersion(int32_t* majorVersion, int32_t* minorVersion, int32_t* patchVersion) {
  return exported([&]() -> Error {
    if (majorVersion == nullptr) return null_pointer("majorVersion");
    if (minorVersion == nullptr) return null_pointer("minorVersion");
    if (patchVersion == nullptr) return null_pointer("patchVersion");
    *majorVersion = ACL_MAJOR_VERSION;
    *minorVersion = ACL_MINOR_VERSION;
    *patchVersion = ACL_PATCH_VERSION;
    return {};
  });
}

aclError aclsysGetCANNVersion(aclCANNPackageName name, aclCANNPackageVersion* version) {
  return exported([&]() -> Error {
    if (version == nullptr) return null_pointer("version");
    if (name < ACL_PKG_NAME_CANN || name > ACL_PKG_NAME_DRIVER) {
      return invalid("name", std::to_string(name), "packages are 0 to 7");
    }
    const std::string text = cann_version();
    put_text(version->version, text);
    put_text(version->majorVersion, part_of(text, 0));
    put_text(version->minorVersion, part_of(text, 1));
    put_text(version->releaseVersion, part_of(text, 2));
    put_text(version->patchVersion, part_of(text, 3));
    std::memset(version->reserved, 0, sizeof version->reserved);
    return {};
  });
}

aclError aclsysGetVersionStr(char* pkgName, char* versionStr) {
  return exported([&]() -> Error {
    if (pkgName == nullptr) return null_pointer("pkgName");
    if (versionStr == nullptr) return null_pointer("versionStr");
    std::snprintf(versionStr, ACL_PKG_VERSION_MAX_SIZE, "%s", cann_version().c_str());
    return {};
  });
}

aclError aclsysGetVersionNum(char* pkgName, int32_t* versionNum) {
  return exported([&]() -> Error {
    if (pkgName == nullptr) return null_pointer("pkgName");
    if (versionNum == nullptr) return null_pointer("versionNum");
    *versionNum = version_number(cann_version());
    return {};
  });
}

// Lines of the level that ASCEND_GLOBAL_LOG_LEVEL names, or a higher one, go to standard error;
// none where it is not set.
void aclAppLog(aclLogLevel logLevel, const char* func, const char* file, uint32_t line,
               const char* fmt, ...) {
  static const char* const kNames[] = {"DEBUG", "INFO", "WARNING", "ERROR"};
  const char* const least = std::getenv("ASCEND_GLOBAL_LOG_LEVEL");
  if (least == nullptr || logLevel < ACL_DEBUG || logLevel > ACL_ERROR ||
      logLevel < std::atoi(least) || fmt == nullptr) {
    return;
  }
  char text[1024];
  va_list arguments;
  va_start(arguments, fmt);
  std::vsnprintf(text, sizeof text, fmt, arguments);
  va_end(arguments);
  std::fprintf(stderr, "[%s] %s (%s:%u): %s\n", kNames[logLevel], func == nullptr ? "" : func,
               file == nullptr ? "" : file, line, text);
}

// What the functions call that are exported and not done; see tools/unsupported.awk. Those of single
// operators fail as they do where the graph engine has none: programs look for that code.
extern "C" int aclnn_not_supported(const char* name);

int aclnn_not_supported(const char* name) {
  return exported([&]() -> Error {
    const bool single_operator = std::strncmp(name, "aclop", 5) == 0;
    return {single_operator ? ACL_ERROR_GE_FAILURE : ACL_ERROR_API_NOT_SUPPORT,
            std::string(name) + " is not supported by this library"};
  });
}
