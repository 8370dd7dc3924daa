#include "runtime/first_contact.h"

#include "acl/error_codes.h"
#include "runtime/channel.h"

namespace aclnn::runtime {
namespace {

constexpr std::chrono::milliseconds kLookLimit{2000};

bool says(const Error& error, const char* words) {
  return error.text.find(words) != std::string::npos;
}

// Whether a handshake gets as far as the server's certificate, trusted or not.
bool speaks_tls(Environment environment) {
  environment.tls = true;
  environment.token.clear();
  const Channel channel(environment);
  const Error error = channel.call("/aclnn.v1.DeviceService/GetServerInfo", "",
                                   "looking whether it speaks TLS", kLookLimit, nullptr);
  return error.code != ACL_ERROR_RT_SOCKET_CLOSE || says(error, "certificate");
}

}  // namespace

Error explained(Error error, const Environment& environment) {
  if (error.code != ACL_ERROR_RT_SOCKET_CLOSE || !says(error, "the connection broke")) return error;
  if (environment.tls) {
    const bool shown = !environment.certificate.empty();
    return {ACL_ERROR_RT_NO_PERMISSION,
            environment.address + ": the server broke off after it had shown its certificate: " +
                (shown ? "it does not accept the one that ACLNN_SERVE_TLS_CERTIFICATE names"
                       : "it asks for one of the client, ACLNN_SERVE_TLS_CERTIFICATE and "
                         "ACLNN_SERVE_TLS_KEY")};
  }
  if (speaks_tls(environment)) {
    error.text = environment.address +
                 ": the server speaks TLS, and the program does not: ACLNN_SERVE_TLS=1, or "
                 "ACLNN_SERVE_TLS_CA with the certificate to trust";
  }
  return error;
}

}  // namespace aclnn::runtime
