#include "runtime/error.h"

#include <array>
#include <atomic>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <deque>
#include <mutex>

#include "acl/acl.h"
#include "aclnn_fields.h"
#include "wire/decode.h"

namespace aclnn::runtime {
namespace {

constexpr size_t kKeptTexts = 16;

// What one thread's calls failed with and aclGetRecentErrMsg has not told yet.
struct Recent {
  std::deque<std::string> texts;  // newest first
  std::string told;               // what the last pointer that was given out points to
  int last_code = 0;
};

thread_local Recent recent;

// The same for the whole process, where aclInit's configuration asks for it. Never destroyed.
struct Shared {
  std::atomic<bool> wanted{false};
  std::mutex mutex;
  std::deque<std::string> texts;
};

Shared& shared() {
  static Shared* const instance = new Shared;
  return *instance;
}

void keep(std::deque<std::string>& texts, std::string text) {
  texts.push_front(std::move(text));
  if (texts.size() > kKeptTexts) texts.pop_back();
}

// --- gRPC's own failures -----------------------------------------------------

struct Cause {
  const char* words;  // of gRPC's debug text, in lower case
  const char* meaning;
};

// The most telling first.
constexpr std::array<Cause, 21> kCauses{{
    {"connection refused", "connection refused; nothing listens there"},
    {"no such file or directory", "there is no such socket"},
    {"permission denied", "permission denied"},
    {"domain name not found", "no such host name"},
    {"dns resolution failed", "no such host name"},
    {"wrong_version_number", "the server does not speak TLS at this address"},
    {"wrong version number", "the server does not speak TLS at this address"},
    {"certificate_verify_failed", "the server's certificate is not trusted"},
    {"certificate verify failed", "the server's certificate is not trusted"},
    {"hostname verification", "certificate of another host"},
    {"is not in peer certificate", "certificate of another host"},
    {"handshake failed", "the TLS handshake failed"},
    {"handshaker", "the TLS handshake failed"},
    {"no route to host", "the network has no route to it"},
    {"network is unreachable", "the network has no route to it"},
    {"timed out", "no reply in time"},
    {"goaway", "the server is shutting down"},
    {"too many pings", "the server closed the connection: too many pings"},
    {"expected settings frame", "what listens there does not speak gRPC"},
    {"parsing http/2", "what listens there does not speak gRPC"},
    {"concurrent rpc limit", "the server has as many calls in hand as it takes"},
}};
constexpr std::array<const char*, 6> kBroken{{"reset by peer", "broken pipe", "socket closed",
                                              "stream removed", "end of file", "end of tcp"}};

std::string lower(std::string_view text) {
  std::string lowered(text);
  for (char& c : lowered) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lowered;
}

std::string cause_of(std::string_view message) {
  const std::string lowered = lower(message);
  for (const Cause& cause : kCauses) {
    if (lowered.find(cause.words) != std::string::npos) return cause.meaning;
  }
  for (const char* words : kBroken) {
    if (lowered.find(words) != std::string::npos) return "the connection broke";
  }
  if (message.empty()) return "it gives no reason";
  return std::string(message.substr(0, 300));
}

struct Translation {
  int status_code;
  int code;
  const char* text;
};

constexpr std::array<Translation, 7> kTranslations{{
    {14, ACL_ERROR_RT_SOCKET_CLOSE, "no answer from the server"},
    {4, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "no answer within the time limit"},
    {1, ACL_ERROR_RT_DEVICE_TASK_ABORT, "the call was cancelled"},
    {16, ACL_ERROR_RT_NO_PERMISSION, "the server refused the credentials"},
    {7, ACL_ERROR_RT_NO_PERMISSION, "the server refused permission"},
    {8, ACL_ERROR_RT_OVER_LIMIT, "a limit was exceeded"},
    {12, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "the server does not offer the call"},
}};

// --- the server's failures ---------------------------------------------------

// google.rpc.Status, Any and ErrorInfo, and the entries of its map.
constexpr uint32_t kStatusMessage = 2, kStatusDetails = 3;
constexpr uint32_t kAnyType = 1, kAnyValue = 2;
constexpr uint32_t kInfoDomain = 2, kInfoMetadata = 3;
constexpr uint32_t kMapKey = 1, kMapValue = 2;

std::string_view bytes_of(std::string_view message, uint32_t number) {
  std::string_view found;
  wire::Reader reader(message);
  for (wire::Field field; reader.next(&field);) {
    if (field.number == number && field.type == wire::kBytes) found = field.bytes;
  }
  return found;
}

// Takes what an ErrorInfo of this project tells; nothing from another's.
void read_info(std::string_view info, Error* error) {
  if (bytes_of(info, kInfoDomain) != "aclnn-serve") return;
  error->code = ACL_ERROR_FAILURE;
  wire::Reader reader(info);
  for (wire::Field field; reader.next(&field);) {
    if (field.number != kInfoMetadata) continue;
    const std::string_view key = bytes_of(field.bytes, kMapKey);
    const std::string_view value = bytes_of(field.bytes, kMapValue);
    if (key == "acl_code") {
      std::from_chars(value.data(), value.data() + value.size(), error->code);
    } else if (key == "operator") {
      error->of_operator = !value.empty();
    } else if (key == "parameter") {
      error->of_parameter = !value.empty();
    }
  }
}

Error from_details(std::string_view status) {
  Error error{0, std::string(bytes_of(status, kStatusMessage))};
  wire::Reader reader(status);
  for (wire::Field field; reader.next(&field);) {
    if (field.number != kStatusDetails || field.type != wire::kBytes) continue;
    if (bytes_of(field.bytes, kAnyType) == "type.googleapis.com/google.rpc.ErrorInfo") {
      read_info(bytes_of(field.bytes, kAnyValue), &error);
    }
  }
  return error;
}

}  // namespace

Error from_grpc(int status_code, std::string_view message, std::string_view details,
                std::string_view doing) {
  if (Error error = from_details(details)) return error;
  const std::string tail = " while " + std::string(doing) + ": " + cause_of(message);
  for (const Translation& translation : kTranslations) {
    if (translation.status_code == status_code) {
      return {translation.code, translation.text + tail};
    }
  }
  return {ACL_ERROR_INTERNAL_ERROR,
          "the call failed with gRPC's status " + std::to_string(status_code) + tail};
}

Error from_wire(std::string_view encoded) {
  Error error{ACL_ERROR_INTERNAL_ERROR, "the server tells no reason"};
  wire::Reader reader(encoded);
  for (wire::Field field; reader.next(&field);) {
    if (field.number == fields::Error::kAclCode && field.value != 0) {
      error.code = static_cast<int>(field.value);
    } else if (field.number == fields::Error::kMessage) {
      error.text = field.bytes;
    } else if (field.number == fields::Error::kOperator) {
      error.of_operator = !field.bytes.empty();
    } else if (field.number == fields::Error::kParameter) {
      error.of_parameter = !field.bytes.empty();
    }
  }
  return error;
}

void share_recent_texts(bool wanted) { shared().wanted = wanted; }

inline namespace v1 {

int fail(int code, std::string text) {
  recent.last_code = code;
  if (!shared().wanted) {
    keep(recent.texts, std::move(text));
  } else {
    const std::lock_guard<std::mutex> lock(shared().mutex);
    keep(shared().texts, std::move(text));
  }
  return code;
}

}  // namespace v1
}  // namespace aclnn::runtime

using namespace aclnn::runtime;

const char* aclGetRecentErrMsg() {
  if (shared().wanted) {
    const std::lock_guard<std::mutex> lock(shared().mutex);
    recent.texts.swap(shared().texts);
    shared().texts.clear();
  }
  if (recent.texts.empty()) return nullptr;
  recent.told.clear();
  for (const std::string& text : recent.texts) {
    if (!recent.told.empty()) recent.told += '\n';
    recent.told += text;
  }
  recent.texts.clear();
  return recent.told.c_str();
}

aclError aclrtPeekAtLastError(aclrtLastErrLevel level) {
  return level == ACL_RT_THREAD_LEVEL ? recent.last_code : ACL_ERROR_INVALID_PARAM;
}

aclError aclrtGetLastError(aclrtLastErrLevel level) {
  const int code = aclrtPeekAtLastError(level);
  recent.last_code = 0;
  return code;
}
