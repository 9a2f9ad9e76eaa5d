#include "scheduler/stream/source_mark.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "common/base/temporary_directory.h"
#include "common/data/whole_file.h"
#include "tests/support/results.h"

namespace dslide::source_mark_test {
namespace {

// Standard input while it lives.
class Input {
 public:
  explicit Input(int fd) : before_(dup(STDIN_FILENO)) {
    REQUIRE(dup2(fd, STDIN_FILENO) == STDIN_FILENO);
  }
  ~Input() {
    dup2(before_, STDIN_FILENO);
    close(before_);
  }

 private:
  int before_;
};

// A run of a stream, and its data.
struct Run {
  Run() {
    Write("data", Text(10'000, 1));
    Spool opened = Ok(Spool::Open(directory.path() + "/stream"));
    spool.emplace(std::move(opened));
    REQUIRE(pipe(ends) == 0);
  }
  ~Run() {
    for (const int end : ends) close(end);
  }
  static std::string Text(size_t size, uint32_t seed) {
    std::string text;
    while (text.size() < size) text += static_cast<char>('a' + (seed = seed * 69069 + 1) % 26);
    return text;
  }
  std::string Path(const std::string& name) const { return directory.path() + "/" + name; }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name)) << text;
  }
  StreamSource Open(const std::string& path) const {
    Result<StreamSource> source = StreamSource::Open(path);
    REQUIRE_MESSAGE(source.ok(), (source.ok() ? "" : source.error().message));
    return *std::move(source);
  }
  // A life that has read what there is.
  void Begin(const std::string& path) {
    StreamSource source = Open(path);
    const std::optional<SourceMark> before = Ok(ReadMark(Path("stream")));
    REQUIRE(CheckSource(before, source, *spool).ok());
    REQUIRE(source.Fetch(&*spool).ok());
    const SourceMark mark = Ok(MarkOf(source, *spool));
    REQUIRE(WriteMark(Path("stream"), mark).ok());
    const std::optional<SourceMark> read = Ok(ReadMark(Path("stream")));
    CHECK(*read == mark);
  }
  // "": it may go on with this.
  std::string WhyNot(const std::string& path) const {
    const std::optional<SourceMark> mark = Ok(ReadMark(Path("stream")));
    const Status checked = CheckSource(mark, Open(path), *spool);
    return checked.ok() ? "" : checked.error().message;
  }

  TemporaryDirectory directory{"source"};
  std::optional<Spool> spool;
  int ends[2];
};

TEST_CASE("stream source: a run of a file goes on with the file, wherever it lies") {
  Run run;
  CHECK(run.WhyNot(run.Path("data")) == "");  // new
  run.Begin(run.Path("data"));
  CHECK(run.WhyNot(run.Path("data")) == "");
  run.Write("copy", Run::Text(10'000, 1) + "and more");
  CHECK(run.WhyNot(run.Path("copy")) == "");
  run.Write("other", Run::Text(20'000, 2));
  CHECK(run.WhyNot(run.Path("other")) ==
        "train.data = " + run.Path("other") + ": it does not begin with what was read from " +
            run.Path("data") +
            "; name the file that the stream of this run began with, or begin another --run-dir");
  // The same beginning, but another end.
  run.Write("later", Run::Text(10'000, 1).replace(9'000, 5, "-----") + "and more");
  CHECK(run.WhyNot(run.Path("later")).find("it does not go on after what was read") !=
        std::string::npos);
  run.Write("short", Run::Text(10'000, 1).substr(0, 9'000));
  CHECK(run.WhyNot(run.Path("short")) == "");  // reading it says that it was cut off
  StreamSource source = run.Open(run.Path("short"));
  CHECK(source.Fetch(&*run.spool).error().message.find("was cut off") != std::string::npos);
}

TEST_CASE("stream source: a run of a pipe does not go on with a file, nor the other way round") {
  Run run;
  const Input input(run.ends[0]);
  REQUIRE(write(run.ends[1], "abc", 3) == 3);
  run.Begin("-");
  CHECK(run.WhyNot("-") == "");
  run.Write("same", "abc");
  CHECK(run.WhyNot(run.Path("same")) ==
        "train.data = " + run.Path("same") +
            ": the stream of this run is a pipe; pipe it on with train.data=-, or begin another "
            "--run-dir");
  Run of_file;
  of_file.Begin(of_file.Path("data"));
  CHECK(of_file.WhyNot("-") == "train.data = -: the stream of this run is the file " +
                                   of_file.Path("data") +
                                   "; name that by train.data, or begin another --run-dir");
}

TEST_CASE("stream source: /dev/null ends any stream") {
  Run run;
  run.Begin(run.Path("data"));
  const int null = open("/dev/null", O_RDONLY);
  const Input input(null);
  close(null);
  CHECK(run.WhyNot("-") == "");
  StreamSource source = run.Open("-");
  const StreamSource::Got got = Ok(source.Fetch(&*run.spool));
  CHECK(got == StreamSource::Got::kEnd);
}

TEST_CASE("stream source: from a socket bytes could be lost, so it is refused") {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  const Input input(ends[0]);
  const Result<StreamSource> source = StreamSource::Open("-");
  REQUIRE(!source.ok());
  CHECK(source.error().message.starts_with("train.data = -: standard input is a socket"));
  CHECK(source.error().message.ends_with("pipe it: ... | cat | dslide train"));
  for (const int end : ends) close(end);
}

TEST_CASE("stream source: a damaged mark is named") {
  Run run;
  for (const char* text : {"", "file\n", "file 1 0000000000000000", "file 1 x /a\n", "disk 1 0 a\n",
                           "file 1 0000000000000001/a\n"}) {
    run.Write("stream/source", text);
    const Result<std::optional<SourceMark>> mark = ReadMark(run.Path("stream"));
    CAPTURE(text);
    REQUIRE(!mark.ok());
    CHECK(mark.error().message.starts_with(run.Path("stream/source") + ": damaged"));
  }
  run.Write("stream/source", "pipe 3 00000000000000ff \n");
  const std::optional<SourceMark> mark = Ok(ReadMark(run.Path("stream")));
  CHECK(*mark == SourceMark{false, 3, 255, ""});
}

}  // namespace
}  // namespace dslide::source_mark_test
