#include "common/data/text_writer.h"

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "common/data/output_file.h"

namespace dslide {

// Owns the file. The encoder's first failure is kept; the file keeps its own.
class TextWriter::Encoder {
 public:
  explicit Encoder(OutputFile file) : file_(std::move(file)) {}
  virtual ~Encoder() = default;
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  virtual void Add(std::string_view text) { file_.Write(text); }
  virtual void End() {}

  Status Finish() {
    End();
    if (failed()) return Failed(fmt::format("{}: cannot write: {}", file_.path(), failure_));
    return file_.Finish();
  }

 protected:
  void Put(const char* bytes, size_t size) { file_.Write({bytes, size}); }
  void Fail(const std::string& why) {
    if (failure_.empty()) failure_ = why;
  }
  bool failed() const { return !failure_.empty(); }

 private:
  OutputFile file_;
  std::string failure_;
};

namespace {

constexpr size_t kEncodedBytes = size_t{64} << 10;

class GzipEncoder : public TextWriter::Encoder {
 public:
  explicit GzipEncoder(OutputFile file) : Encoder(std::move(file)), out_(kEncodedBytes) {
    constexpr int kWindowBits = 15;
    constexpr int kGzip = 16;
    constexpr int kMemoryLevel = 8;
    initialised_ = deflateInit2(&zlib_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kWindowBits + kGzip,
                                kMemoryLevel, Z_DEFAULT_STRATEGY) == Z_OK;
    if (!initialised_) Fail("cannot start zlib: not enough memory");
  }
  ~GzipEncoder() override {
    if (initialised_) deflateEnd(&zlib_);
  }

  void Add(std::string_view text) override {
    constexpr size_t kMost = size_t{1} << 30;
    for (; !text.empty(); text.remove_prefix(std::min(text.size(), kMost))) {
      const std::string_view part = text.substr(0, kMost);
      zlib_.next_in = reinterpret_cast<const Bytef*>(part.data());
      zlib_.avail_in = static_cast<uInt>(part.size());
      Deflate(Z_NO_FLUSH);
    }
  }
  void End() override { Deflate(Z_FINISH); }

 private:
  void Deflate(int flush) {
    do {
      if (failed()) return;
      zlib_.next_out = reinterpret_cast<Bytef*>(out_.data());
      zlib_.avail_out = static_cast<uInt>(out_.size());
      deflate(&zlib_, flush);
      Put(out_.data(), out_.size() - zlib_.avail_out);
    } while (zlib_.avail_out == 0);
  }

  z_stream zlib_ = {};
  bool initialised_ = false;
  std::vector<char> out_;
};

class ZstdEncoder : public TextWriter::Encoder {
 public:
  explicit ZstdEncoder(OutputFile file)
      : Encoder(std::move(file)), zstd_(ZSTD_createCStream()), out_(kEncodedBytes) {
    if (zstd_ == nullptr) {
      Fail("cannot start libzstd: not enough memory");
    } else {
      ZSTD_CCtx_setParameter(zstd_, ZSTD_c_checksumFlag, 1);
    }
  }
  ~ZstdEncoder() override { ZSTD_freeCStream(zstd_); }

  void Add(std::string_view text) override {
    ZSTD_inBuffer input = {text.data(), text.size(), 0};
    while (input.pos < input.size && !failed()) Compress(&input, ZSTD_e_continue);
  }
  void End() override {
    ZSTD_inBuffer nothing = {nullptr, 0, 0};
    while (!failed() && Compress(&nothing, ZSTD_e_end) > 0) {
    }
  }

 private:
  // Returns how much is not written yet.
  size_t Compress(ZSTD_inBuffer* input, ZSTD_EndDirective directive) {
    ZSTD_outBuffer output = {out_.data(), out_.size(), 0};
    const size_t left = ZSTD_compressStream2(zstd_, &output, input, directive);
    if (ZSTD_isError(left)) {
      Fail(ZSTD_getErrorName(left));
      return 0;
    }
    Put(out_.data(), output.pos);
    return left;
  }

  ZSTD_CStream* zstd_;
  std::vector<char> out_;
};

std::unique_ptr<TextWriter::Encoder> MakeEncoder(const std::string& path, OutputFile file) {
  if (path.ends_with(".gz")) return std::make_unique<GzipEncoder>(std::move(file));
  if (path.ends_with(".zst")) return std::make_unique<ZstdEncoder>(std::move(file));
  return std::make_unique<TextWriter::Encoder>(std::move(file));
}

}  // namespace

TextWriter::TextWriter(std::unique_ptr<Encoder> encoder) : encoder_(std::move(encoder)) {}
TextWriter::TextWriter(TextWriter&&) noexcept = default;
TextWriter::~TextWriter() = default;

Result<TextWriter> TextWriter::Create(const std::string& path) {
  Result<OutputFile> file = OutputFile::Create(path);
  DSLIDE_RETURN_IF_ERROR(file);
  return TextWriter(MakeEncoder(path, std::move(*file)));
}

void TextWriter::Write(std::string_view text) { encoder_->Add(text); }

Status TextWriter::Finish() {
  const std::unique_ptr<Encoder> encoder = std::move(encoder_);
  return encoder->Finish();
}

}  // namespace dslide
