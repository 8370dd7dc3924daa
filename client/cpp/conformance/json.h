// JSON, as far as the conformance kit speaks it.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace aclnn::conformance {

// A value: null, true, false, a number or a text as `text`, or what is in it.
struct Json {
  std::string text;
  std::vector<Json> items;
  std::vector<std::pair<std::string, Json>> fields;

  // Null where there is none.
  const Json* find(std::string_view name) const {
    for (const auto& [key, value] : fields) {
      if (key == name) return &value;
    }
    return nullptr;
  }

  const Json& operator[](std::string_view name) const {
    const Json* const found = find(name);
    if (found == nullptr) throw std::runtime_error("no " + std::string(name));
    return *found;
  }

  int64_t whole() const { return static_cast<int64_t>(std::strtoull(text.c_str(), nullptr, 10)); }
  double number() const { return std::strtod(text.c_str(), nullptr); }
  bool yes() const { return text == "true"; }

  std::vector<int64_t> wholes() const {
    std::vector<int64_t> values;
    for (const Json& item : items) values.push_back(item.whole());
    return values;
  }
};

// Reads one text. The kit's own program has written it, so that only what json.dumps writes comes.
class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : text_(text) {}

  Json read() {
    skip_space();
    Json value;
    if (peek() == '{') {
      read_each('}', [&] {
        std::string name = read_text();
        expect(':');
        value.fields.emplace_back(std::move(name), read());
      });
    } else if (peek() == '[') {
      read_each(']', [&] { value.items.push_back(read()); });
    } else if (peek() == '"') {
      value.text = read_text();
    } else {
      while (at_ < text_.size() && std::string_view(",]} \n").find(peek()) == std::string_view::npos) {
        value.text.push_back(text_[at_++]);
      }
    }
    skip_space();
    return value;
  }

 private:
  char peek() const {
    if (at_ == text_.size()) throw std::runtime_error("JSON that ends too early");
    return text_[at_];
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }

  void expect(char wanted) {
    skip_space();
    if (peek() != wanted) throw std::runtime_error("JSON without a " + std::string(1, wanted));
    ++at_;
    skip_space();
  }

  template <class Element>
  void read_each(char end, Element element) {
    ++at_;
    skip_space();
    while (peek() != end) {
      element();
      if (peek() == ',') expect(',');
    }
    ++at_;
  }

  std::string read_text() {
    std::string text;
    for (expect('"'); peek() != '"'; ++at_) {
      if (peek() == '\\') throw std::runtime_error("JSON with an escape, of which the kit has none");
      text.push_back(peek());
    }
    ++at_;
    return text;
  }

  std::string_view text_;
  size_t at_ = 0;
};

// A text in quotation marks.
inline std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += {'\\', c};
    } else if (c == '\n') {
      result += "\\n";
    } else {
      result.push_back(c);
    }
  }
  return result + '"';
}

}  // namespace aclnn::conformance
