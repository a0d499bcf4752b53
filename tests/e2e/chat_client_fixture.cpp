// A plain HTTP client of our own, so that the server is not tested with its own library of choice.
#include "tests/e2e/chat_client.hpp"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/asio/write.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <istream>
#include <sstream>
#include <thread>

namespace tandem::test {

namespace asio = boost::asio;
namespace json = boost::json;

namespace {

// A plain HTTP/1.1 exchange whose body is handed out line by line; every wait has a deadline.
class Exchange {
 public:
  Exchange(std::uint16_t port, const std::string& request) : socket_(context_) {
    socket_.connect({asio::ip::address_v4::loopback(), port});
    timeval limit{120, 0};
    ::setsockopt(socket_.native_handle(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    asio::write(socket_, asio::buffer(request));
    read_head();
  }
  int status() const { return status_; }

  // Returns the next line of the body without its newline; nothing at the end.
  bool next_line(std::string& line) {
    for (;;) {
      if (const auto end = body_.find('\n'); end != std::string::npos) {
        line = body_.substr(0, end);
        body_.erase(0, end + 1);
        if (!line.empty() && line.back() == '\r') line.pop_back();
        return true;
      }
      if (!read_more()) {
        line = std::exchange(body_, {});
        return !line.empty();
      }
    }
  }
  std::string whole_body() {
    while (read_more()) {
    }
    return std::exchange(body_, {});
  }

 private:
  std::string raw_line() {
    boost::system::error_code error;
    asio::read_until(socket_, raw_, "\r\n", error);
    std::istream in{&raw_};
    std::string line;
    std::getline(in, line);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    return line;
  }
  void read_head() {
    std::istringstream first{raw_line()};
    std::string version;
    first >> version >> status_;
    for (std::string line = raw_line(); !line.empty(); line = raw_line()) {
      for (auto& c : line) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      if (line.starts_with("content-length:")) left_ = std::stoul(line.substr(15));
      if (line.starts_with("transfer-encoding:")) is_chunked_ = true;
    }
  }
  bool read_exactly(std::size_t count) {
    boost::system::error_code error;
    if (raw_.size() < count) asio::read(socket_, raw_, asio::transfer_exactly(count - raw_.size()), error);
    const std::size_t got = std::min(count, raw_.size());
    body_.append(static_cast<const char*>(raw_.data().data()), got);
    raw_.consume(got);
    return got == count;
  }
  bool read_more() {
    if (is_over_) return false;
    if (!is_chunked_) {
      is_over_ = true;
      return read_exactly(left_) && left_ > 0;
    }
    const std::string size = raw_line();
    const auto count = size.empty() ? 0 : std::stoul(size, nullptr, 16);
    if (count == 0) {
      is_over_ = true;
      return false;
    }
    const bool is_whole = read_exactly(count);
    raw_line();
    return is_whole;
  }

  asio::io_context context_;
  asio::ip::tcp::socket socket_;
  asio::streambuf raw_;
  std::string body_;
  int status_ = 0;
  std::size_t left_ = 0;
  bool is_chunked_ = false, is_over_ = false;
};

std::string text_of(const json::object& object, std::string_view key) {
  const auto* value = object.if_contains(key);
  return value && value->is_string() ? std::string(value->as_string()) : std::string();
}

void read_usage(const json::object& object, ChatAnswer& answer) {
  const auto* usage = object.if_contains("usage");
  if (!usage || !usage->is_object()) return;
  answer.prompt_tokens = usage->at("prompt_tokens").to_number<std::int64_t>();
  answer.completion_tokens = usage->at("completion_tokens").to_number<std::int64_t>();
}

void read_choice(const json::object& choice, const char* part, ChatAnswer& answer) {
  const auto& message = choice.at(part).as_object();
  answer.content += text_of(message, "content");
  answer.reasoning += text_of(message, "reasoning_content");
  if (const auto reason = text_of(choice, "finish_reason"); !reason.empty()) answer.finish_reason = reason;
  if (const auto* calls = message.if_contains("tool_calls"); calls && calls->is_array())
    answer.tool_calls = calls->as_array();
}

void read_object(const json::object& object, const char* part, ChatAnswer& answer) {
  if (const auto* error = object.if_contains("error")) answer.error = json::serialize(*error);
  const auto* choices = object.if_contains("choices");
  if (choices)
    for (const auto& choice : choices->as_array()) read_choice(choice.as_object(), part, answer);
  read_usage(object, answer);
}

void read_stream(Exchange& exchange, std::size_t events_max, ChatAnswer& answer) {
  for (std::string line; answer.events < events_max && exchange.next_line(line);) {
    if (!line.starts_with("data: ")) continue;
    ++answer.events;
    if (line == "data: [DONE]") {
      answer.is_done = true;
      continue;
    }
    read_object(json::parse(line.substr(6)).as_object(), "delta", answer);
  }
}

std::string head(std::string_view method, std::string_view target) {
  return std::string(method) + " " + std::string(target) + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
}

}  // namespace

json::object chat_body(std::string_view question, bool is_thinking, json::object more) {
  json::object body{{"messages", {{{"role", "user"}, {"content", question}}}},
                    {"temperature", 0},
                    {"chat_template_kwargs", {{"thinking", is_thinking}}}};
  for (const auto& [key, value] : more) body[key] = value;
  return body;
}

ChatAnswer ask(std::uint16_t port, const json::object& body, std::size_t events_max) {
  const std::string text = json::serialize(body);
  Exchange exchange{port, head("POST", "/v1/chat/completions") + "Content-Type: application/json\r\nContent-Length: " +
                              std::to_string(text.size()) + "\r\n\r\n" + text};
  ChatAnswer answer;
  answer.status = exchange.status();
  const auto* stream = body.if_contains("stream");
  if (answer.status == 200 && stream && stream->is_bool() && stream->as_bool()) {
    read_stream(exchange, events_max, answer);
    return answer;
  }
  boost::system::error_code error;
  const auto value = json::parse(exchange.whole_body(), error);
  if (!error && value.is_object()) read_object(value.as_object(), "message", answer);
  return answer;
}

double metric(std::uint16_t port, std::string_view name) {
  Exchange exchange{port, head("GET", "/metrics") + "\r\n"};
  std::istringstream lines{exchange.whole_body()};
  double sum = -1;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name)) continue;
    const char after = line.size() > name.size() ? line[name.size()] : ' ';
    if (after != ' ' && after != '{') continue;
    sum = std::max(sum, 0.0) + std::stod(line.substr(line.rfind(' ') + 1));
  }
  return sum;
}

bool metric_reaches(std::uint16_t port, std::string_view name, double value) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (std::chrono::steady_clock::now() < deadline) {
    if (metric(port, name) >= value) return true;
    std::this_thread::yield();
  }
  return false;
}

bool becomes_idle(std::uint16_t port) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (std::chrono::steady_clock::now() < deadline) {
    if (metric(port, "vllm:num_requests_running") == 0 && metric(port, "vllm:num_requests_waiting") == 0) return true;
    std::this_thread::yield();
  }
  return false;
}

}  // namespace tandem::test
