#include "common/model/model_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/base/nearest.h"
#include "common/checkpoint/file_checksum.h"
#include "common/config/limits.h"
#include "common/config/stored_config.h"
#include "common/data/whole_file.h"
#include "common/math/int8/int8_scan.h"
#include "common/model/block_checks.h"
#include "common/model/name_ranking.h"
#include "common/rank/stored_reranker.h"
#include "common/run/slot_rows.h"
#include "model_generated.h"

namespace dslide {
namespace {

static_assert(std::endian::native == std::endian::little, "model files have little-endian arrays");

constexpr size_t kAlignment = 64;
constexpr size_t kMagicBytes = 16;
using Magic = std::array<char, kMagicBytes>;
constexpr Magic kBegin = {'d', 's', 'l', 'i', 'd', 'e', ' ', 'm', 'o', 'd', 'e', 'l', '\n'};
constexpr Magic kEnd = {'d', 's', 'l', 'i', 'd', 'e', ' ', 'e', 'n', 'd', '\n'};
constexpr char kPreprocessor[] = "preprocessor";
constexpr char kNotes[] = "notes";
constexpr char kReranker[] = "reranker";
constexpr char kLabelNames[] = "label_names";  // each with a line end
// Nearly all of the file. What they hold can make scores wrong, and nothing else.
constexpr std::array<std::string_view, 3> kLargeSections = {"input", "rows", "weights"};
// Bytes of a large section that one checksum covers: at most as many as the kernel reads ahead for
// a page of a mapped file. Checksums take 1/8192 of the file.
constexpr size_t kCheckedBytes = size_t{64} << 10;
constexpr size_t kTailBytes = 2 * sizeof(uint64_t) + kMagicBytes;

template <typename T>
std::string_view BytesOf(std::span<const T> array) {
  return {reinterpret_cast<const char*>(array.data()), array.size_bytes()};
}
std::string_view BytesOf(const Magic& magic) { return {magic.data(), magic.size()}; }

uint64_t ChecksumOfBytes(std::string_view bytes) {
  return ChecksumOf({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

bool IsLarge(std::string_view section) {
  return std::ranges::find(kLargeSections, section) != kLargeSections.end();
}

// The checksum of every block of a section.
std::vector<uint64_t> BlockChecksums(std::string_view bytes) {
  std::vector<uint64_t> sums;
  for (size_t at = 0; at < bytes.size(); at += kCheckedBytes) {
    sums.push_back(ChecksumOfBytes(bytes.substr(at, kCheckedBytes)));
  }
  return sums;
}

// Calls each(name, array) for every array of a model; the same names for writing and reading.
template <typename Arrays, typename Each>
void ForEachArray(Arrays& arrays, const Each& each) {
  each("input", arrays.input);
  each("label_of", arrays.label_of);
  each("cell_ends", arrays.cell_ends);
  each("cell_means", arrays.cell_means);
  each("cell_biases", arrays.cell_biases);
  each("bias", arrays.bias);
  each("rows", arrays.rows);
  each("row_scales", arrays.row_scales);
  each("weights", arrays.weights);
  each("label_counts", arrays.label_counts);
}

// Each with a line end.
std::vector<std::string> LinesOf(std::string_view text) {
  std::vector<std::string> lines;
  for (size_t end = 0; (end = text.find('\n')) != std::string_view::npos;) {
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return lines;
}

// Reads a file into memory that is all zeros. Of a file that becomes shorter meanwhile the rest
// stays so. Returns 0, or the error.
int ReadInto(int fd, char* memory, size_t bytes) {
  for (size_t at = 0; at < bytes;) {
    const ssize_t count = read(fd, memory + at, bytes - at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    if (count == 0) break;
    at += static_cast<size_t>(count);
  }
  return 0;
}

// A file in memory, for reading.
class Mapping {
 public:
  static Result<std::shared_ptr<const Mapping>> Open(const std::string& path,
                                                     ModelMemory where = ModelMemory::kMapped) {
    const auto failed = [&](int code) {
      return BadInput(fmt::format("{}: cannot open: {}", path, std::strerror(code)));
    };
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return failed(errno);
    struct stat status = {};
    void* memory = nullptr;
    int code = 0;
    if (fstat(fd, &status) != 0) {
      code = errno;
    } else if (!S_ISREG(status.st_mode)) {
      code = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
    } else if (status.st_size > 0) {
      const auto bytes = static_cast<size_t>(status.st_size);
      memory = where == ModelMemory::kMapped ? mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0)
                                             : mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (memory == MAP_FAILED) {
        code = errno;
      } else if (where == ModelMemory::kCopied) {
        (void)madvise(memory, bytes, MADV_HUGEPAGE);  // a search reads all of it
        code = ReadInto(fd, static_cast<char*>(memory), bytes);
        if (code != 0) munmap(memory, bytes);
      }
    }
    close(fd);
    if (code != 0) return failed(code);
    return std::shared_ptr<const Mapping>(
        new Mapping(static_cast<const char*>(memory), static_cast<size_t>(status.st_size)));
  }
  Mapping(const Mapping&) = delete;
  ~Mapping() {
    if (!bytes_.empty()) munmap(const_cast<char*>(bytes_.data()), bytes_.size());
  }

  std::string_view bytes() const { return bytes_; }

 private:
  Mapping(const char* data, size_t size) : bytes_(data, size) {}
  std::string_view bytes_;
};

// The description of a mapped file, and its sections.
class Reader {
 public:
  Reader(const std::string& path, std::string_view file) : path_(path), file_(file) {}

  Status ReadDescription() {
    if (!file_.starts_with(BytesOf(kBegin))) {
      return BadInput(
          fmt::format("{}: not a model file; `dslide export` makes one of a run directory", path_));
    }
    if (file_.size() < kMagicBytes + kTailBytes || !file_.ends_with(BytesOf(kEnd))) {
      return Damaged("its end is missing");
    }
    uint64_t length = 0, checksum = 0;
    const char* tail = file_.data() + file_.size() - kTailBytes;
    std::memcpy(&length, tail, sizeof(length));
    std::memcpy(&checksum, tail + sizeof(length), sizeof(checksum));
    if (length > file_.size() - kMagicBytes - kTailBytes) return Damaged("its description");
    const size_t begin = file_.size() - kTailBytes - length;
    text_ = file_.substr(begin, length);
    if (begin % kAlignment != 0 || ChecksumOfBytes(text_) != checksum) {
      return Damaged("its description");
    }
    const auto* data = reinterpret_cast<const uint8_t*>(text_.data());
    flatbuffers::Verifier verifier(data, text_.size());
    if (text_.size() < 8 || !wire::VerifyModelFileBuffer(verifier)) {
      return Damaged("its description");
    }
    description_ = wire::GetModelFile(data);
    if (description_->format() != kModelFormat) {
      return BadInput(fmt::format("{}: format {}, this program reads format {}; export it again",
                                  path_, description_->format(), kModelFormat));
    }
    if (description_->config() == nullptr || description_->sections() == nullptr) {
      return Damaged("its description");
    }
    return {};
  }

  const wire::ModelFile& description() const { return *description_; }

  // A section's bytes; a section that is not there has none.
  Result<std::string_view> Section(std::string_view name) const {
    for (const wire::ModelSection* section : *description_->sections()) {
      if (section->name() == nullptr || section->name()->string_view() != name) continue;
      if (section->offset() % kAlignment != 0 || section->offset() > file_.size() ||
          section->bytes() > file_.size() - section->offset()) {
        return Damaged(name);
      }
      return file_.substr(section->offset(), section->bytes());
    }
    return std::string_view();
  }

  // Checks the checksums of all sections, or only those of sections that are not large.
  Status CheckSums(bool with_large) const {
    for (const wire::ModelSection* section : *description_->sections()) {
      if (section->name() == nullptr) return Damaged("its description");
      if (!with_large && IsLarge(section->name()->string_view())) continue;
      const Result<std::string_view> bytes = Section(section->name()->string_view());
      DSLIDE_RETURN_IF_ERROR(bytes);
      if (ChecksumOfBytes(*bytes) != section->checksum()) {
        return Damaged(section->name()->string_view());
      }
    }
    return {};
  }

  // The checks of the large sections. REQUIRES CheckSums(), which has seen that all have names.
  Result<std::shared_ptr<const BlockChecks>> LargeSections() const {
    std::vector<BlockChecks::Section> large;
    for (const wire::ModelSection* section : *description_->sections()) {
      const std::string_view name = section->name()->string_view();
      if (!IsLarge(name)) continue;
      const Result<std::string_view> bytes = Section(name);
      DSLIDE_RETURN_IF_ERROR(bytes);
      if (bytes->empty()) continue;
      BlockChecks::Section checked{std::string(name), *bytes, section->block_bytes(), {}};
      if (section->blocks() == nullptr || section->block_bytes() == 0) {  // an earlier version's
        checked.block_bytes = bytes->size();
        checked.checksums = {section->checksum()};
      } else {
        checked.checksums.assign(section->blocks()->begin(), section->blocks()->end());
      }
      if (checked.checksums.size() != (bytes->size() - 1) / checked.block_bytes + 1) {
        return Damaged("its description");
      }
      large.push_back(std::move(checked));
    }
    return std::make_shared<const BlockChecks>(path_, std::move(large));
  }

  Error Damaged(std::string_view what) const { return DamagedModelFile(path_, what); }

 private:
  const std::string& path_;
  std::string_view file_;
  std::string_view text_;
  const wire::ModelFile* description_ = nullptr;
};

// Whether the arrays fit each other and the model. What they hold does not matter to memory safety.
bool Fit(const ModelInfo& info, const ModelArrays& a) {
  const size_t hidden = info.hidden(), positions = a.label_of.size(), cells = a.cell_ends.size();
  if (info.hidden() == 0 || info.labels() == 0 || positions % kInt8PanelRows != 0 ||
      positions < info.labels() || positions > kNoLabel || cells == 0 ||
      info.features() > kMostFeatures ||
      a.input.size() != InputRowCount(info.config.model) * info.input_width() ||
      a.cell_means.size() != cells * hidden || a.cell_biases.size() != cells ||
      a.bias.size() != positions || a.row_scales.size() != positions ||
      a.rows.size() != positions * Int8Units(hidden) * kInt8Group ||
      (!a.weights.empty() && a.weights.size() != positions * hidden) ||
      (!a.label_counts.empty() && a.label_counts.size() != info.labels()) || info.probes > cells) {
    return false;
  }
  uint32_t begin = 0;
  for (const uint32_t end : a.cell_ends) {
    if (end < begin || end % kInt8PanelRows != 0 || end > positions) return false;
    begin = end;
  }
  if (begin != positions) return false;
  std::vector<bool> seen(info.labels());
  size_t labels = 0;
  for (const uint32_t label : a.label_of) {
    if (label == kNoLabel) continue;
    if (label >= info.labels() || seen[label]) return false;
    seen[label] = true;
    ++labels;
  }
  return labels == info.labels();
}

}  // namespace

Status WriteModelFile(const Model& model, const std::string& path) {
  DSLIDE_RETURN_IF_ERROR(model.CheckAll());  // new checksums would make damage look sound
  const std::string preprocessor =
      model.preprocessor() == nullptr ? "" : model.preprocessor()->ToBytes();
  constexpr char kZeros[kAlignment] = {};
  std::vector<std::string_view> parts = {BytesOf(kBegin)};
  size_t at = kMagicBytes;
  const auto align = [&] {
    const size_t gap = (kAlignment - at % kAlignment) % kAlignment;
    parts.emplace_back(kZeros, gap);
    at += gap;
  };
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<wire::ModelSection>> sections;
  const auto add = [&](const char* name, std::string_view bytes) {
    if (bytes.empty()) return;
    align();
    const std::vector<uint64_t> blocks =
        IsLarge(name) ? BlockChecksums(bytes) : std::vector<uint64_t>();
    sections.push_back(wire::CreateModelSectionDirect(
        builder, name, at, bytes.size(), ChecksumOfBytes(bytes), blocks.empty() ? 0 : kCheckedBytes,
        blocks.empty() ? nullptr : &blocks));
    parts.push_back(bytes);
    at += bytes.size();
  };
  ForEachArray(model.arrays(),
               [&](const char* name, const auto& array) { add(name, BytesOf(std::span(array))); });
  add(kPreprocessor, preprocessor);
  add(kNotes, model.info().notes);
  const NameRanking* names = model.info().name_ranking.get();
  const std::string reranker = names == nullptr ? "" : RerankerBytes(names->reranker());
  add(kReranker, reranker);
  std::string label_names;
  for (const std::string& name : model.info().label_names) (label_names += name) += '\n';
  add(kLabelNames, label_names);
  align();
  const ModelInfo& info = model.info();
  wire::FinishModelFileBuffer(
      builder,
      wire::CreateModelFileDirect(
          builder, kModelFormat, info.name.c_str(), FormatConfig(info.config).c_str(), info.samples,
          info.features(), info.hidden(), info.labels(), model.positions(), model.cells(),
          info.probes, info.index_recall, &sections, info.adjustment.usual, info.adjustment.rare));
  const std::string_view description(reinterpret_cast<const char*>(builder.GetBufferPointer()),
                                     builder.GetSize());
  const std::array<uint64_t, 2> tail = {description.size(), ChecksumOfBytes(description)};
  parts.push_back(description);
  parts.push_back(BytesOf(std::span<const uint64_t>(tail)));
  parts.push_back(BytesOf(kEnd));
  return WriteWholeFile(path, parts);
}

Result<std::shared_ptr<const Model>> OpenModelFile(const std::string& path, ModelMemory memory) {
  const Result<std::shared_ptr<const Mapping>> mapping = Mapping::Open(path, memory);
  DSLIDE_RETURN_IF_ERROR(mapping);
  Reader reader(path, (*mapping)->bytes());
  DSLIDE_RETURN_IF_ERROR(reader.ReadDescription());
  // A copy has read all bytes already.
  DSLIDE_RETURN_IF_ERROR(reader.CheckSums(memory == ModelMemory::kCopied));
  std::shared_ptr<const BlockChecks> checks;
  if (memory == ModelMemory::kMapped) {
    Result<std::shared_ptr<const BlockChecks>> large = reader.LargeSections();
    DSLIDE_RETURN_IF_ERROR(large);
    checks = *std::move(large);
  }
  const wire::ModelFile& description = reader.description();
  ModelInfo info;
  if (description.name() != nullptr) info.name = description.name()->str();
  Result<Config> config = ParseStoredConfig(description.config()->string_view(), path);
  DSLIDE_RETURN_IF_ERROR(config);
  info.config = *std::move(config);
  info.samples = description.samples();
  info.probes = description.probes();
  info.index_recall = description.index_recall();
  info.adjustment = {description.logit_adjustment(), description.rare_logit_adjustment()};
  if (!std::isfinite(info.adjustment.usual) || !std::isfinite(info.adjustment.rare)) {
    return reader.Damaged("its description");
  }
  if (info.features() != description.features() || info.hidden() != description.hidden() ||
      info.labels() != description.labels()) {
    return reader.Damaged("its description");
  }

  ModelArrays arrays;
  Status status;
  ForEachArray(arrays, [&](const char* name, auto& array) {
    using T = typename std::remove_reference_t<decltype(array)>::element_type;
    const Result<std::string_view> bytes = reader.Section(name);
    if (status.ok() && !bytes.ok()) status = bytes.error();
    if (!bytes.ok() || bytes->empty()) return;
    array = {reinterpret_cast<const T*>(bytes->data()), bytes->size() / sizeof(T)};
  });
  DSLIDE_RETURN_IF_ERROR(status);
  if (!Fit(info, arrays)) return reader.Damaged("its arrays do not fit each other");

  const Result<std::string_view> notes = reader.Section(kNotes);
  DSLIDE_RETURN_IF_ERROR(notes);
  info.notes = *notes;
  const Result<std::string_view> label_names = reader.Section(kLabelNames);
  DSLIDE_RETURN_IF_ERROR(label_names);
  info.label_names = LinesOf(*label_names);
  if (!label_names->empty() && info.label_names.size() != info.labels()) {
    return reader.Damaged(kLabelNames);
  }
  std::shared_ptr<const Preprocessor> preprocessor;
  const Result<std::string_view> stored = reader.Section(kPreprocessor);
  DSLIDE_RETURN_IF_ERROR(stored);
  if (!stored->empty()) {
    Result<Preprocessor> read = Preprocessor::FromBytes(std::string(*stored), path);
    DSLIDE_RETURN_IF_ERROR(read);
    if (read->num_features() != info.features() || read->num_labels() != info.labels()) {
      return reader.Damaged(kPreprocessor);
    }
    preprocessor = std::make_shared<const Preprocessor>(*std::move(read));
  }
  const Result<std::string_view> reranker = reader.Section(kReranker);
  DSLIDE_RETURN_IF_ERROR(reranker);
  if (!reranker->empty()) {
    if (preprocessor == nullptr) return reader.Damaged(kReranker);
    const Vocabulary& vocabulary = preprocessor->vocabulary();
    auto read = ParseReranker(std::string(*reranker), vocabulary, path, "export the model again");
    DSLIDE_RETURN_IF_ERROR(read);
    info.name_ranking = std::make_shared<const NameRanking>(*std::move(read), vocabulary);
  }
  if (DenseRowCount(info.config.model) > 0 && checks != nullptr) {  // which Model reads at once
    const auto dense =
        arrays.input.subspan(size_t{FirstDenseId(info.config.model)} * info.input_width());
    DSLIDE_RETURN_IF_ERROR(checks->Check(BytesOf(dense)));
  }
  return std::make_shared<const Model>(std::move(info), arrays, std::move(preprocessor), *mapping,
                                       std::move(checks));
}

Status VerifyModelFile(const std::string& path) {
  const Result<std::shared_ptr<const Mapping>> mapping = Mapping::Open(path);
  DSLIDE_RETURN_IF_ERROR(mapping);
  Reader reader(path, (*mapping)->bytes());
  DSLIDE_RETURN_IF_ERROR(reader.ReadDescription());
  return reader.CheckSums(true);
}

bool IsModelFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  Magic begin = {};
  const bool is_model =
      read(fd, begin.data(), begin.size()) == ssize_t{kMagicBytes} && begin == kBegin;
  close(fd);
  return is_model;
}

}  // namespace dslide
