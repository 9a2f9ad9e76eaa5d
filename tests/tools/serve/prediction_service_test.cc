#include "tools/dslide/serve/prediction_service.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <iterator>

#include "common/base/mutex.h"
#include "tests/tools/serve/word_model.h"

namespace dslide::prediction_service_test {
namespace {

// Reads requests whose body is NAME or NAME:SAMPLES, and notes what is done.
class Noting final : public Dialect {
 public:
  std::string_view name() const override { return "noting"; }
  std::variant<PredictionRequest, Refusal> Parse(const HttpRequest& request) const override {
    Note("read " + request.body);
    if (during_) during_(request.body);
    PredictionRequest asked;
    asked.id = request.body;
    const size_t colon = request.body.find(':');
    asked.samples.resize(colon == std::string::npos ? 1
                                                    : std::stoul(request.body.substr(colon + 1)));
    return asked;
  }
  HttpResponse Answer(const Model&, const std::string&, const PredictionRequest& request,
                      const Predictions&) const override {
    Note("answer " + request.id);
    return JsonAnswer(200, "");
  }
  std::string Refuse(const Refusal& refusal) const override {
    Note(std::to_string(refusal.status));
    return "";
  }
  // `during` is called while a request is read.
  void SetDuring(std::function<void(const std::string&)> during) { during_ = std::move(during); }
  std::vector<std::string> notes() const {
    const MutexLock lock(mutex_);
    return notes_;
  }

 private:
  void Note(const std::string& note) const {
    const MutexLock lock(mutex_);
    notes_.push_back(note);
  }

  std::function<void(const std::string&)> during_;
  mutable Mutex mutex_;
  mutable std::vector<std::string> notes_ DSLIDE_GUARDED_BY(mutex_);
};

// The notes of a service with one thread to which requests come while it reads the first.
std::vector<std::string> Done(const std::vector<std::string>& requests, int64_t limit_ms,
                              const std::function<void(const std::string&)>& during = nullptr) {
  Noting dialect;
  std::promise<void> first_is_read, all_came;
  dialect.SetDuring([&](const std::string& body) {
    if (body == "first") {
      first_is_read.set_value();
      all_came.get_future().wait();
    }
    if (during) during(body);
  });
  ServeMetrics metrics;
  PredictionService::Options options;
  options.limit_ms = limit_ms;
  {
    PredictionService service(options, WordModel(), &metrics);
    const auto submit = [&](const std::string& body) {
      service.Submit({.method = "POST", .path = "", .body = body}, dialect,
                     [](const HttpResponse&) {});
    };
    submit("first");
    first_is_read.get_future().wait();
    for (const std::string& body : requests) submit(body);
    all_came.set_value();
  }  // answers what is waiting
  const std::vector<std::string> notes = dialect.notes();
  return {notes.begin() + 2, notes.end()};  // without those of the first
}

TEST_CASE("serve: requests are answered together as far as they have few samples") {
  constexpr int64_t kLong = 1'000'000'000;
  CHECK(Done({"a", "b:2", "c"}, kLong) == std::vector<std::string>{"read a", "read b:2", "read c",
                                                                   "answer a", "answer b:2",
                                                                   "answer c"});
  CHECK(Done({"a:60", "b:60", "c:60", "d:60", "e:30", "f"}, kLong) ==
        std::vector<std::string>{"read a:60", "read b:60", "read c:60", "read d:60", "read e:30",
                                 "answer a:60", "answer b:60", "answer c:60", "answer d:60",
                                 "read f", "answer e:30", "answer f"});
}

// The notes about these requests, in order.
std::vector<std::string> About(const std::vector<std::string>& requests,
                               const std::vector<std::string>& notes) {
  std::vector<std::string> about;
  std::ranges::copy_if(notes, std::back_inserter(about), [&](const std::string& note) {
    return std::ranges::count(requests, note.substr(note.find(' ') + 1)) > 0;
  });
  return about;
}

TEST_CASE("serve: requests of many samples are answered each by itself, apart from the others") {
  const auto done = Done({"a", "b:1000", "c:65", "d:64"}, 1'000'000'000);
  CHECK(About({"a", "d:64"}, done) ==
        std::vector<std::string>{"read a", "read d:64", "answer a", "answer d:64"});
  for (const char* heavy : {"b:1000", "c:65"}) {
    const std::string read = std::string("read ") + heavy;
    CHECK(About({heavy}, done) ==
          std::vector<std::string>{read, read, std::string("answer ") + heavy});
  }
}

TEST_CASE("serve: a request is answered while a long one is read, by one thread each") {
  Noting dialect;
  std::promise<void> long_is_read, short_is_answered;
  dialect.SetDuring([&](const std::string& body) {
    if (body.size() < 65'537) return;
    long_is_read.set_value();
    CHECK(short_is_answered.get_future().wait_for(std::chrono::minutes(1)) ==
          std::future_status::ready);
  });
  ServeMetrics metrics;
  PredictionService service({}, WordModel(), &metrics);
  service.Submit({.method = "POST", .path = "", .body = std::string(65'537, 'x')}, dialect,
                 [](const HttpResponse&) {});
  long_is_read.get_future().wait();
  service.Submit({.method = "POST", .path = "", .body = std::string(65'536, 'y')}, dialect,
                 [&](const HttpResponse&) { short_is_answered.set_value(); });
}

TEST_CASE("serve: a request that has waited too long for others is refused, and not ranked") {
  constexpr int64_t kLimitMs = 200;
  const auto done = Done({"a", "b"}, kLimitMs, [](const std::string& body) {
    if (body != "b") return;
    const auto now = [] { return std::chrono::steady_clock::now(); };
    for (const auto begun = now(); now() - begun < std::chrono::milliseconds(2 * kLimitMs);) {
    }
  });
  CHECK(done.size() >= 2);
  for (const std::string& note : done) CHECK_FALSE(note.starts_with("answer"));
}

}  // namespace
}  // namespace dslide::prediction_service_test
