#include "runtime/json.h"

#include <cctype>
#include <cstring>

namespace aclnn::runtime {
namespace {

constexpr int kDeepest = 64;

class Parser {
 public:
  Parser(std::string_view text, std::map<std::string, std::string>* scalars)
      : text_(text), scalars_(scalars) {}

  bool parse() {
    skip_spaces();
    if (!at('{') || !value("", 0)) return false;
    skip_spaces();
    return text_.empty();
  }

 private:
  bool value(const std::string& path, int depth) {
    skip_spaces();
    if (depth > kDeepest || text_.empty()) return false;
    if (at('{')) return object(path, depth);
    if (at('[')) return array(path, depth);
    std::string scalar;
    if (!(at('"') ? string(&scalar) : bare(&scalar))) return false;
    (*scalars_)[path] = scalar;
    return true;
  }

  bool object(const std::string& path, int depth) {
    take('{');
    skip_spaces();
    if (take('}')) return true;
    do {
      skip_spaces();
      std::string key;
      if (!at('"') || !string(&key)) return false;
      skip_spaces();
      if (!take(':') || !value(path.empty() ? key : path + "." + key, depth + 1)) return false;
      skip_spaces();
    } while (take(','));
    return take('}');
  }

  bool array(const std::string& path, int depth) {
    take('[');
    skip_spaces();
    if (take(']')) return true;
    int index = 0;
    do {
      if (!value(path + "." + std::to_string(index++), depth + 1)) return false;
      skip_spaces();
    } while (take(','));
    return take(']');
  }

  // A text. What is escaped stays as it is written: nothing that is looked for has it.
  bool string(std::string* content) {
    take('"');
    while (!text_.empty() && !at('"')) {
      if (static_cast<unsigned char>(text_.front()) < 0x20) return false;
      if (at('\\')) {
        if (text_.size() < 2 || std::strchr("\"\\/bfnrtu", text_[1]) == nullptr) return false;
        content->push_back(text_.front());
        text_.remove_prefix(1);
      }
      content->push_back(text_.front());
      text_.remove_prefix(1);
    }
    return take('"');
  }

  // true, false, null or a number.
  bool bare(std::string* content) {
    while (!text_.empty() && (std::isalnum(static_cast<unsigned char>(text_.front())) != 0 ||
                              std::strchr("+-.", text_.front()) != nullptr)) {
      content->push_back(text_.front());
      text_.remove_prefix(1);
    }
    if (*content == "true" || *content == "false" || *content == "null") return true;
    char* end = nullptr;
    std::strtod(content->c_str(), &end);
    const bool begins =
        !content->empty() && (content->front() == '-' ||
                              std::isdigit(static_cast<unsigned char>(content->front())) != 0);
    return begins && *end == '\0';
  }

  bool at(char c) const { return !text_.empty() && text_.front() == c; }

  bool take(char c) {
    if (!at(c)) return false;
    text_.remove_prefix(1);
    return true;
  }

  void skip_spaces() {
    while (!text_.empty() && std::strchr(" \t\r\n", text_.front()) != nullptr) {
      text_.remove_prefix(1);
    }
  }

  std::string_view text_;
  std::map<std::string, std::string>* scalars_;
};

}  // namespace

bool read_json(std::string_view text, std::map<std::string, std::string>* scalars) {
  return Parser(text, scalars).parse();
}

}  // namespace aclnn::runtime
