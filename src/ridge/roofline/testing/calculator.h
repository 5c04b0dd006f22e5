// The arithmetic of the printed expressions: + - * / ( ), names and whole numbers.
#pragma once

#include <cctype>
#include <cstddef>
#include <map>
#include <string>
#include <utility>

namespace ridge::testing {

class Calculator {
 public:
  Calculator(std::string text, std::map<std::string, double> values)
      : text_(std::move(text)), values_(std::move(values)) {}
  double sum() {
    double value = product();
    while (peek() == '+' || peek() == '-') value += next() == '+' ? product() : -product();
    return value;
  }

 private:
  char peek() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  char next() {
    peek();
    return text_[at_++];
  }
  double product() {
    double value = atom();
    while (peek() == '*' || peek() == '/') value = next() == '*' ? value * atom() : value / atom();
    return value;
  }
  double atom() {
    if (peek() == '(') {
      next();
      const double value = sum();
      next();
      return value;
    }
    std::string word;
    while (std::isalnum(static_cast<unsigned char>(peek()))) word += next();
    return std::isdigit(static_cast<unsigned char>(word[0])) ? std::stod(word) : values_.at(word);
  }

  std::string text_;
  std::map<std::string, double> values_;
  std::size_t at_ = 0;
};

}  // namespace ridge::testing
