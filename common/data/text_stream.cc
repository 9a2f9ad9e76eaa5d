#include "common/data/text_stream.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "common/data/csv_quotes.h"

namespace dslide {

namespace {

constexpr size_t kChunkBytes = size_t{64} << 10;
constexpr uint64_t kUnknown = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kMostGzip = 1032;  // bytes that one compressed byte becomes (RFC 1951)
constexpr std::string_view kGzipMagic = "\x1f\x8b";
constexpr std::string_view kZstdMagic = "\x28\xb5\x2f\xfd";
constexpr std::string_view kZstdSkippableMagic = "\x2a\x4d\x18";  // after a byte 0x50 to 0x5f

// The undecoded bytes of a file or of a buffer, with a look ahead. Owns the descriptor.
class RawInput {
 public:
  RawInput(int descriptor, uint64_t bytes)
      : descriptor_(descriptor), bytes_(bytes), buffer_(kChunkBytes, '\0') {}
  explicit RawInput(std::string bytes)
      : bytes_(bytes.size()), buffer_(std::move(bytes)), end_(buffer_.size()) {}
  RawInput(RawInput&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)),
        bytes_(other.bytes_),
        buffer_(std::move(other.buffer_)),
        begin_(other.begin_),
        end_(other.end_) {}
  RawInput& operator=(RawInput&&) = delete;
  ~RawInput() {
    if (descriptor_ >= 0) close(descriptor_);
  }

  uint64_t bytes() const { return bytes_; }  // in all; kUnknown: not told

  // At least `count` <= kChunkBytes bytes to be consumed, or all there are before the end.
  Result<std::string_view> Peek(size_t count) {
    while (end_ - begin_ < count && descriptor_ >= 0) {
      DSLIDE_RETURN_IF_ERROR(ReadSome());
    }
    return std::string_view(buffer_).substr(begin_, end_ - begin_);
  }

  void Consume(size_t count) { begin_ += count; }

 private:
  Status ReadSome() {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= std::exchange(begin_, 0);
    ssize_t count;
    do {
      count = read(descriptor_, buffer_.data() + end_, buffer_.size() - end_);
    } while (count < 0 && errno == EINTR);
    if (count < 0) return Failed(fmt::format("cannot read: {}", std::strerror(errno)));
    if (count == 0) close(std::exchange(descriptor_, -1));
    end_ += static_cast<size_t>(count);
    return {};
  }

  int descriptor_ = -1;  // -1: there is no more than what is in the buffer
  uint64_t bytes_;
  std::string buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
};

Error Truncated(std::string_view format) {
  return BadInput(fmt::format(
      "the {} stream is truncated (expected it to go on; copy or download the file again)",
      format));
}

Error Corrupt(std::string_view format, std::string_view reason) {
  return BadInput(fmt::format("the {} stream is corrupt: {} (copy or download the file again)",
                              format, reason));
}

class PlainDecoder : public TextStream::Decoder {
 public:
  explicit PlainDecoder(RawInput input) : input_(std::move(input)) {}

  Result<size_t> Read(char* out, size_t size) override {
    auto bytes = input_.Peek(1);
    if (!bytes.ok()) return bytes.error();
    const size_t count = bytes->copy(out, size);
    input_.Consume(count);
    return count;
  }

 private:
  RawInput input_;
};

class GzipDecoder : public TextStream::Decoder {
 public:
  explicit GzipDecoder(RawInput input) : input_(std::move(input)) {
    constexpr int kWindowBits = 15;
    constexpr int kGzipOnly = 16;
    initialised_ = inflateInit2(&zlib_, kWindowBits + kGzipOnly) == Z_OK;
  }
  ~GzipDecoder() override {
    if (initialised_) inflateEnd(&zlib_);
  }
  GzipDecoder(const GzipDecoder&) = delete;
  GzipDecoder& operator=(const GzipDecoder&) = delete;

  Result<size_t> Read(char* out, size_t size) override {
    if (!initialised_) return Failed("cannot start zlib: not enough memory");
    const uInt capacity = Clamp(size);
    zlib_.next_out = reinterpret_cast<Bytef*>(out);
    zlib_.avail_out = capacity;
    while (zlib_.avail_out == capacity) {
      auto bytes = input_.Peek(1);
      if (!bytes.ok()) return bytes.error();
      // zlib cannot have consumed a member's last 8 bytes while it still has output, so without
      // input there is no more output.
      if (bytes->empty()) return in_member_ ? Result<size_t>(Truncated("gzip")) : size_t{0};
      if (!in_member_ && bytes->front() == '\0') {  // gzip too reads over zeros behind a member
        input_.Consume(std::min(bytes->find_first_not_of('\0'), bytes->size()));
        continue;
      }
      DSLIDE_RETURN_IF_ERROR(Inflate(*bytes));
    }
    return size_t{capacity - zlib_.avail_out};
  }

 private:
  static uInt Clamp(size_t size) { return static_cast<uInt>(std::min(size, size_t{1} << 30)); }

  Status Inflate(std::string_view bytes) {
    if (!in_member_) inflateReset(&zlib_);
    in_member_ = true;
    const uInt available = Clamp(bytes.size());
    zlib_.next_in = reinterpret_cast<const Bytef*>(bytes.data());
    zlib_.avail_in = available;
    const int code = inflate(&zlib_, Z_NO_FLUSH);
    input_.Consume(available - zlib_.avail_in);
    if (code == Z_STREAM_END) in_member_ = false;
    if (code == Z_OK || code == Z_STREAM_END) return {};
    if (code == Z_MEM_ERROR) return Failed("cannot decode gzip: not enough memory");
    return Corrupt("gzip", zlib_.msg != nullptr ? zlib_.msg : zError(code));
  }

  RawInput input_;
  z_stream zlib_ = {};
  bool initialised_ = false;
  bool in_member_ = true;
};

class ZstdDecoder : public TextStream::Decoder {
 public:
  explicit ZstdDecoder(RawInput input) : input_(std::move(input)), zstd_(ZSTD_createDStream()) {
    // Files of --long=31 as well; memory is taken as a file wants it.
    if (zstd_ == nullptr) return;
    const int most = ZSTD_dParam_getBounds(ZSTD_d_windowLogMax).upperBound;
    ZSTD_DCtx_setParameter(zstd_, ZSTD_d_windowLogMax, most);
  }
  ~ZstdDecoder() override { ZSTD_freeDStream(zstd_); }
  ZstdDecoder(const ZstdDecoder&) = delete;
  ZstdDecoder& operator=(const ZstdDecoder&) = delete;

  Result<size_t> Read(char* out, size_t size) override {
    if (zstd_ == nullptr) return Failed("cannot start libzstd: not enough memory");
    ZSTD_outBuffer output = {out, size, 0};
    while (output.pos == 0) {
      auto bytes = input_.Peek(1);
      if (!bytes.ok()) return bytes.error();
      const bool no_more_input = bytes->empty();
      if (no_more_input && !in_frame_) return size_t{0};
      ZSTD_inBuffer input = {bytes->data(), bytes->size(), 0};
      const size_t code = ZSTD_decompressStream(zstd_, &output, &input);
      if (ZSTD_isError(code)) return Corrupt("zstd", ZSTD_getErrorName(code));
      input_.Consume(input.pos);
      in_frame_ = code != 0;
      if (no_more_input && in_frame_ && output.pos == 0) return Truncated("zstd");
    }
    return output.pos;
  }

 private:
  RawInput input_;
  ZSTD_DStream* zstd_;
  bool in_frame_ = true;
};

bool IsZstd(std::string_view head) {
  if (head.starts_with(kZstdMagic)) return true;
  return !head.empty() && (head[0] & 0xf0) == 0x50 &&
         head.substr(1).starts_with(kZstdSkippableMagic);
}

struct Decoding {
  std::unique_ptr<TextStream::Decoder> decoder;
  uint64_t most_bytes;  // of the text
};
Result<Decoding> MakeDecoder(RawInput input) {
  const auto peeked = input.Peek(kZstdMagic.size());
  if (!peeked.ok()) return peeked.error();
  const std::string_view head = *peeked;
  const uint64_t bytes = input.bytes();
  if (head.starts_with(kGzipMagic)) {
    return Decoding{std::make_unique<GzipDecoder>(std::move(input)),
                    bytes > kUnknown / kMostGzip ? kUnknown : bytes * kMostGzip};
  }
  if (IsZstd(head)) return Decoding{std::make_unique<ZstdDecoder>(std::move(input)), kUnknown};
  return Decoding{std::make_unique<PlainDecoder>(std::move(input)), bytes};
}

Result<RawInput> OpenFile(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return BadInput(fmt::format("cannot open: {}", std::strerror(errno)));
  struct stat info = {};
  const bool known = fstat(descriptor, &info) == 0;
  const bool is_file = known && S_ISREG(info.st_mode) && info.st_size > 0;  // /proc says 0
  RawInput input(descriptor, is_file ? static_cast<uint64_t>(info.st_size) : kUnknown);
  if (known && S_ISDIR(info.st_mode)) return BadInput("is a directory (expected a file)");
  return input;
}

}  // namespace

std::string Quoted(std::string_view text) {
  constexpr size_t kShownBytes = 40;
  std::string quoted = "'";
  for (const char c : text.substr(0, kShownBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      quoted += c;
    } else {
      quoted += fmt::format("\\x{:02x}", byte);
    }
  }
  return quoted + (text.size() > kShownBytes ? "...'" : "'");
}

TextStream::TextStream(std::string name, std::unique_ptr<Decoder> decoder, uint64_t most_bytes)
    : name_(std::move(name)),
      decoder_(std::move(decoder)),
      most_bytes_(most_bytes),
      buffer_(kChunkBytes) {}

bool IsReadOnce(const std::string& path) {
  struct stat status = {};
  return stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

bool IsBlank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

TextStream::TextStream(TextStream&&) noexcept = default;
TextStream& TextStream::operator=(TextStream&&) noexcept = default;
TextStream::~TextStream() = default;

Result<TextStream> TextStream::OpenRecords(const std::string& path) {
  if (std::unique_ptr<Decoder> folder = DecoderOfFolder(path)) {
    return TextStream(path, std::move(folder), kUnknown);
  }
  return Open(path);
}

Result<TextStream> TextStream::Open(const std::string& path) {
  // No line is at fault yet.
  const auto named = [&path](Error error) {
    error.message = fmt::format("{}: {}", path, error.message);
    return error;
  };
  auto input = OpenFile(path);
  if (!input.ok()) return named(input.error());
  auto decoding = MakeDecoder(*std::move(input));
  if (!decoding.ok()) return named(decoding.error());
  return TextStream(path, std::move(decoding->decoder), decoding->most_bytes);
}

Result<TextStream> TextStream::FromMemory(std::string name, std::string bytes) {
  auto decoding = MakeDecoder(RawInput(std::move(bytes)));
  if (!decoding.ok()) return decoding.error();
  return TextStream(std::move(name), std::move(decoding->decoder), decoding->most_bytes);
}

// A line of CSV, as far as it is known.
struct TextStream::QuotedLine {
  CsvQuotes quotes;
  size_t fed = 0;        // bytes that `quotes` has seen
  size_t first_end = 0;  // of its first line, if there are more
  uint64_t more_lines = 0;

  void Feed(std::string_view rest, size_t end) {
    quotes.Feed(rest.substr(fed, end - fed));
    fed = end;
  }
};

Result<std::optional<std::string_view>> TextStream::Next() {
  if (failure_) return *failure_;
  if (has_ended_) return std::optional<std::string_view>();
  if (!std::exchange(is_cut_, false)) line_ += 1 + std::exchange(joined_, 0);
  size_t searched = 0;  // bytes of the line known to hold no line end
  std::optional<QuotedLine> quoted;
  if (csv_separator_) quoted.emplace(CsvQuotes(*csv_separator_));
  while (true) {
    const std::string_view rest(buffer_.data() + begin_, end_ - begin_);
    const size_t line_end = rest.find('\n', searched);
    const bool is_long = longest_part_ > 0 && std::min(line_end, rest.size()) > longest_part_;
    if (is_long) return TakePart();
    if (line_end != std::string_view::npos) {
      const std::optional<size_t> end = quoted ? EndOf(&*quoted, rest, line_end) : line_end;
      if (end) return TakeLine(*end, 1);
      searched = line_end + 1;
      continue;
    }
    if (at_end_ && rest.empty()) {
      has_ended_ = true;
      return std::optional<std::string_view>();
    }
    if (at_end_ && quoted) return TakeLastQuoted(&*quoted, rest);
    if (at_end_) return TakeLine(rest.size(), 0);
    searched = rest.size();
    const bool has_first_line = quoted && quoted->more_lines > 0;
    if (has_first_line && rest.size() >= kMaxLineBytes) return TakeLine(quoted->first_end, 1);
    if (Status refilled = Refill(); !refilled.ok()) {
      failure_ = Located(refilled.error());
      return *failure_;
    }
  }
}

// The end of the line; nullopt: the line does not end at `line_end`.
std::optional<size_t> TextStream::EndOf(QuotedLine* line, std::string_view rest, size_t line_end) {
  line->Feed(rest, line_end);
  if (!line->quotes.is_open()) {
    joined_ = line->more_lines;
    return line_end;
  }
  if (line->more_lines == 0) line->first_end = line_end;
  if (++line->more_lines == kMostQuotedLines) return line->first_end;
  return std::nullopt;
}

std::optional<std::string_view> TextStream::TakeLastQuoted(QuotedLine* line,
                                                           std::string_view rest) {
  line->Feed(rest, rest.size());
  if (line->quotes.is_open() && line->more_lines > 0) return TakeLine(line->first_end, 1);
  joined_ = line->more_lines;
  return TakeLine(rest.size(), 0);
}

// The beginning of a line that is longer than longest_part_.
std::optional<std::string_view> TextStream::TakePart() {
  const std::string_view part(buffer_.data() + begin_, longest_part_);
  const size_t blank = part.find_last_of(" \t");
  is_cut_ = true;
  if (blank == std::string_view::npos || blank == 0) {
    // Not inside of a character of UTF-8, of which the next byte of the line would go on.
    size_t end = longest_part_;
    const auto goes_on = [&] {
      return (static_cast<uint8_t>(buffer_[begin_ + end]) & 0xc0) == 0x80;
    };
    while (end > 1 && end + 3 > longest_part_ && goes_on()) --end;
    return TakeLine(end, 0);
  }
  return TakeLine(blank, 1);
}

std::optional<std::string_view> TextStream::TakeLine(size_t length, size_t line_end_length) {
  std::string_view line(buffer_.data() + begin_, length);
  last_begin_ = begin_;
  begin_ += length + line_end_length;
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line_ == 1 && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  return line;
}

void TextStream::PutBack() {
  begin_ = last_begin_;
  --line_;
  joined_ = 0;
  is_cut_ = false;
}

std::string_view TextStream::Peek(size_t bytes) {
  while (!at_end_ && !not_read_ && end_ - begin_ < bytes) {
    if (const Status refilled = Refill(); !refilled.ok()) not_read_ = refilled.error();
  }
  std::string_view text(buffer_.data() + begin_, std::min(bytes, end_ - begin_));
  if (line_ == 0 && text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return text;
}

// Moves the unfinished line to the front of the buffer and decodes more behind it.
Status TextStream::Refill() {
  if (not_read_) return *std::exchange(not_read_, std::nullopt);
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= std::exchange(begin_, 0);
  if (end_ == buffer_.size()) {
    if (end_ >= kMaxLineBytes) {
      return BadInput(fmt::format("the line is longer than {} MiB (is this a text file?)",
                                  kMaxLineBytes >> 20));
    }
    buffer_.resize(2 * buffer_.size());
  }
  auto count = decoder_->Read(buffer_.data() + end_, buffer_.size() - end_);
  if (!count.ok()) return count.error();
  end_ += *count;
  at_end_ = *count == 0;
  return {};
}

Error TextStream::BadLine(std::string_view what) const {
  return Located(BadInput(std::string(what)));
}

Error TextStream::Located(Error error) const {
  error.message = fmt::format("{}:{}: {}", name_, line_, error.message);
  return error;
}

}  // namespace dslide
