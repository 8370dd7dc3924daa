// What the environment says about the server and how to reach it.
#pragma once

#include <string>

#include "runtime/error.h"

namespace aclnn::runtime {

// Read once, at the first call that needs the server.
struct Environment {
  std::string address;      // ACLNN_SERVER, as the user wrote it
  std::string target;       // gRPC's name for it
  std::string token;        // ACLNN_SERVE_TOKEN, or the content of ACLNN_SERVE_TOKEN_FILE
  std::string roots;        // content of ACLNN_SERVE_TLS_CA: whom to trust
  std::string certificate;  // content of ACLNN_SERVE_TLS_CERTIFICATE: who one is
  std::string key;          // content of ACLNN_SERVE_TLS_KEY
  std::string server_name;  // ACLNN_SERVE_TLS_SERVER_NAME: whose certificate the server's is to be
  bool tls = false;         // one of the TLS settings is made, or ACLNN_SERVE_TLS is 1
  bool local = false;       // the address is this machine's, as far as the name tells
};

// Reads it; fails where the server is not named, or something in it cannot be.
Error read_environment(Environment* environment);

// The value of a variable, empty where it is not set.
std::string variable(const char* name);

}  // namespace aclnn::runtime
