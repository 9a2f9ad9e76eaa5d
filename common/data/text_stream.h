// Lines of a text file that may be compressed.
//
// Plain, gzip (RFC 1952, also several members) and Zstandard (RFC 8878, also several frames) are
// told apart by their first bytes, never by the file's name. zlib and libzstd appear behind this
// file only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"

namespace dslide {

// A longer line is an error, so that a file without line ends cannot eat the memory. About four
// million features fit.
constexpr size_t kMaxLineBytes = size_t{64} << 20;

// What a file of UTF-8 may begin with. It is no part of the first line.
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

// `text` between quotes for an error message: one printable line, cut if long.
std::string Quoted(std::string_view text);

// Whether a line has nothing but blanks.
bool IsBlank(std::string_view line);

// Whether the path is a pipe, or something else whose content is gone once it was read.
bool IsReadOnce(const std::string& path);

// Movable, not thread-safe. Errors are kBadInput (kFailed if the machine is at fault) and start
// with "name:line: ", of Open with "name: ". After an error Next returns that error again.
class TextStream {
 public:
  static Result<TextStream> Open(const std::string& path);
  // The same, or the documents of a folder (document_folder.cc), a line of JSON each.
  static Result<TextStream> OpenRecords(const std::string& path);

  // Reads `bytes` as if they were the contents of a file called `name`.
  static Result<TextStream> FromMemory(std::string name, std::string bytes);

  TextStream(TextStream&&) noexcept;
  TextStream& operator=(TextStream&&) noexcept;
  ~TextStream();

  // The next line, the first one without a byte order mark. It comes without its "\n" or "\r\n", or
  // nullopt at the end; valid until the next call. The last line may lack its line end. A
  // compressed stream that is cut or damaged is an error.
  Result<std::optional<std::string_view>> Next();

  // Lines of more than `bytes` come in parts of at most as many, which end at a blank if they have
  // one. REQUIRES 0 < bytes <= kMaxLineBytes.
  void CutLongLines(size_t bytes) { longest_part_ = bytes; }

  // From now on Next() does not end a line at a line end between quotes of CSV (csv_quotes.h), but
  // joins up to kMostQuotedLines lines and kMaxLineBytes. If the quotes are not closed by then, or
  // by the end of the file, the line ends at its first line end. line() is the number of the first
  // joined line.
  static constexpr size_t kMostQuotedLines = 1000;
  void JoinQuotedLines(char separator) { csv_separator_ = separator; }

  // The next `bytes` of the text, or all that are left, without a byte order mark; valid until the
  // next call. Next() returns an error that occurs here. REQUIRES bytes <= kMaxLineBytes. PutBack()
  // must be called before Peek(), not after it.
  std::string_view Peek(size_t bytes);

  // Makes Next() return its last line once more. REQUIRES that Next() has returned a line.
  void PutBack();

  // The text has at most so many bytes, by the length of the file; a pipe or a Zstandard stream
  // does not tell.
  uint64_t most_bytes() const { return most_bytes_; }

  // The line that Next returned or failed at, from 1; at the end one more than the file has.
  uint64_t line() const { return line_; }

  // kBadInput "name:line: what" about the current line.
  Error BadLine(std::string_view what) const;

  // A stream of decoded bytes; an implementation detail.
  class Decoder {
   public:
    virtual ~Decoder() = default;
    // Writes up to `size` > 0 bytes and returns how many; 0 at the intact end of the text.
    virtual Result<size_t> Read(char* out, size_t size) = 0;
  };

 private:
  // Of document_folder.cc; null: the path is no folder of documents.
  static std::unique_ptr<Decoder> DecoderOfFolder(const std::string& path);

  TextStream(std::string name, std::unique_ptr<Decoder> decoder, uint64_t most_bytes);

  std::optional<std::string_view> TakePart();
  std::optional<std::string_view> TakeLine(size_t length, size_t line_end_length);
  struct QuotedLine;
  std::optional<size_t> EndOf(QuotedLine* line, std::string_view rest, size_t line_end);
  std::optional<std::string_view> TakeLastQuoted(QuotedLine* line, std::string_view rest);
  Status Refill();
  Error Located(Error error) const;

  std::string name_;
  std::unique_ptr<Decoder> decoder_;
  uint64_t most_bytes_;
  std::vector<char> buffer_;  // [begin_, end_) is decoded and not yet returned
  size_t begin_ = 0;
  size_t end_ = 0;
  size_t last_begin_ = 0;    // of the line that Next returned
  bool at_end_ = false;      // nothing is left to decode; Next() or Peek() sets it
  bool has_ended_ = false;   // Next() has returned nullopt
  size_t longest_part_ = 0;  // 0: lines are whole
  bool is_cut_ = false;      // more of the line that Next returned last comes
  uint64_t line_ = 0;
  std::optional<char> csv_separator_;
  uint64_t joined_ = 0;            // further lines in the line that Next() returned last
  std::optional<Error> not_read_;  // the error that Peek() met
  std::optional<Error> failure_;
};

}  // namespace dslide
