#include "runtime/environment.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>

#include "acl/error_codes.h"

namespace aclnn::runtime {
namespace {

constexpr const char* kUnixPrefix = "unix:";

bool starts_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

Error bad_address(const std::string& address, const char* what) {
  return {ACL_ERROR_INVALID_PARAM, "ACLNN_SERVER is '" + address + "' (" + what +
                                       "); it must be host:port, [IPv6]:port or unix:path"};
}

bool is_port(std::string_view text) {
  if (text.empty() || text.size() > 5) return false;
  for (char c : text) {
    if (c < '0' || c > '9') return false;
  }
  const long port = std::strtol(std::string(text).c_str(), nullptr, 10);
  return port >= 1 && port <= 65535;
}

bool is_local_host(std::string_view host) {
  return host == "localhost" || host == "::1" || starts_with(host, "127.");
}

Error read_address(Environment* environment) {
  const std::string& address = environment->address;
  if (starts_with(address, kUnixPrefix)) {
    std::string path = address.substr(std::strlen(kUnixPrefix));
    if (starts_with(path, "//")) path.erase(0, 2);
    if (path.empty()) return bad_address(address, "no path of a socket");
    environment->target = kUnixPrefix + path;
    environment->local = true;
    return {};
  }
  if (address.find("://") != std::string::npos) {
    return bad_address(address, "a URL; leave out what is before the host");
  }
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return bad_address(address, "no port");
  std::string_view host = std::string_view(address).substr(0, colon);
  if (host.empty()) return bad_address(address, "no host");
  if (!is_port(std::string_view(address).substr(colon + 1))) {
    return bad_address(address, "no port of 1 to 65535");
  }
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (!bracketed && host.find(':') != std::string_view::npos) {
    return bad_address(address, "an IPv6 address without brackets");
  }
  if (bracketed) host = host.substr(1, host.size() - 2);
  environment->target = "dns:///" + address;
  environment->local = is_local_host(host);
  return {};
}

Error read_file(const char* name, std::string* content) {
  const std::string path = variable(name);
  if (path.empty()) return {};
  std::ifstream file(path, std::ios::binary);
  std::ostringstream read;
  if (file) read << file.rdbuf();
  if (!file) {
    return {ACL_ERROR_INVALID_FILE, std::string(name) + " is '" + path +
                                        "', which cannot be read: " + std::strerror(errno)};
  }
  *content = read.str();
  return {};
}

Error read_token(Environment* environment) {
  std::string& token = environment->token;
  token = variable("ACLNN_SERVE_TOKEN");
  if (token.empty()) {
    if (Error error = read_file("ACLNN_SERVE_TOKEN_FILE", &token)) return error;
    while (!token.empty() && std::strchr("\r\n", token.back())) token.pop_back();
  }
  for (const char c : token) {
    if (c < '!' || c > '~') {
      return {ACL_ERROR_INVALID_PARAM,
              "the token has other than printable ASCII characters without spaces"};
    }
  }
  return {};
}

}  // namespace

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Error read_environment(Environment* environment) {
  environment->address = variable("ACLNN_SERVER");
  if (environment->address.empty()) {
    return {ACL_ERROR_RT_NO_DEVICE,
            "ACLNN_SERVER is not set; it names the server: host:port or unix:path"};
  }
  if (Error error = read_address(environment)) return error;
  if (Error error = read_token(environment)) return error;
  if (Error error = read_file("ACLNN_SERVE_TLS_CA", &environment->roots)) return error;
  if (Error error = read_file("ACLNN_SERVE_TLS_CERTIFICATE", &environment->certificate)) {
    return error;
  }
  if (Error error = read_file("ACLNN_SERVE_TLS_KEY", &environment->key)) return error;
  if (environment->certificate.empty() != environment->key.empty()) {
    return {
        ACL_ERROR_INVALID_PARAM,
        "only one of ACLNN_SERVE_TLS_CERTIFICATE and ACLNN_SERVE_TLS_KEY is set; a client proves "
        "itself with both"};
  }
  environment->server_name = variable("ACLNN_SERVE_TLS_SERVER_NAME");
  const std::string wanted = variable("ACLNN_SERVE_TLS");
  environment->tls = !environment->roots.empty() || !environment->key.empty() ||
                     !environment->server_name.empty() || wanted == "1";
  const bool shown = !environment->token.empty() && !environment->tls && !environment->local;
  if (shown && wanted != "0") {
    return {ACL_ERROR_INVALID_PARAM,
            "the token would travel to " + environment->address +
                " for all to read; ACLNN_SERVE_TLS=1 protects it, ACLNN_SERVE_TLS=0 says that this "
                "is meant"};
  }
  return {};
}

}  // namespace aclnn::runtime
