// Writes messages with the library's own encoder: a line of standard input for each field, of which `end`
// closes a nested message and `done` a message. Prints each message in hexadecimal digits.
#include <cstdio>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "wire/encode.h"

namespace wire = aclnn::wire;

static std::string from_hex(const std::string& digits) {
  std::string bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

static void print(const std::string& message) {
  for (const char byte : message) std::printf("%02x", static_cast<unsigned char>(byte));
  std::printf("\n");
}

int main() {
  std::string out, line;
  std::vector<std::unique_ptr<wire::Nested>> open;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string kind, text;
    uint32_t field = 0;
    words >> kind >> field;
    if (kind == "done") {
      print(out);
      out.clear();
    } else if (kind == "end") {
      open.pop_back();
    } else if (kind == "begin") {
      open.push_back(std::make_unique<wire::Nested>(out, field));
    } else if (kind == "varint") {
      words >> text;
      wire::put_varint(out, field, std::stoull(text));
    } else if (kind == "signed") {
      words >> text;
      wire::put_signed(out, field, std::stoll(text));
    } else if (kind == "bytes") {
      words >> text;
      wire::put_bytes(out, field, from_hex(text));
    } else if (kind == "float") {
      words >> text;
      wire::add_float(out, field, std::stof(text));
    } else if (kind == "double") {
      words >> text;
      wire::add_double(out, field, std::stod(text));
    } else if (kind == "packed") {
      std::vector<int64_t> numbers;
      while (words >> text) numbers.push_back(std::stoll(text));
      wire::put_packed(out, field, numbers.data(), numbers.size());
    } else {
      return 2;
    }
  }
  return 0;
}
