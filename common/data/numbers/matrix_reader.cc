#include "common/data/numbers/matrix_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <string_view>
#include <utility>

#include "common/base/plural.h"
#include "common/data/numbers/npy_header.h"
#include "common/data/numbers/npy_matrix.h"
#include "common/data/numbers/npz_archive.h"
#include "common/data/numbers/npz_matrix.h"

namespace dslide {
namespace {

bool IsFile(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

// Where a name that begins at `begin` may end: the places of "+" and "," behind ".npz" or ".npy".
std::vector<size_t> EndsOfNames(const std::string& path, size_t begin) {
  std::vector<size_t> ends;
  for (size_t at = begin; (at = path.find_first_of("+,", at)) != std::string::npos; ++at) {
    const std::string_view before = std::string_view(path).substr(begin, at - begin);
    if (before.ends_with(".npz") || before.ends_with(".npy")) ends.push_back(at);
  }
  return ends;
}

// Where the name that begins at `begin` ends: path.size() if nothing is behind it.
size_t EndOfName(const std::string& path, size_t begin) {
  const std::vector<size_t> ends = EndsOfNames(path, begin);
  if (ends.empty() || IsFile(path.substr(begin))) return path.size();
  for (auto end = ends.rbegin(); end != ends.rend(); ++end) {
    if (IsFile(path.substr(begin, *end - begin))) return *end;
  }
  return ends.front();
}

}  // namespace

std::optional<MatrixPaths> MatrixPathsOf(const std::string& path) {
  MatrixPaths paths;
  size_t begin = 0;
  while (true) {
    const size_t end = EndOfName(path, begin);
    const std::string name = path.substr(begin, end - begin);
    const bool is_alone = end == path.size() && begin == 0;
    // A pipe must not be opened twice.
    if (is_alone && !(IsFile(name) && (IsZipFile(name) || IsNpyFile(name)))) return std::nullopt;
    paths.features.push_back(name);
    if (end == path.size()) return paths;
    begin = end + 1;
    if (path[end] == '+') continue;
    break;
  }
  // Labels have no "+".
  size_t end = EndOfName(path, begin);
  if (end < path.size() && path[end] == '+') end = path.size();
  paths.labels = path.substr(begin, end - begin);
  if (end < path.size()) paths.weights = path.substr(end + 1);
  return paths;
}

Result<MatrixReader> MatrixReader::Open(const MatrixPaths& paths) {
  MatrixReader reader;
  for (const std::string& path : paths.features) DSLIDE_RETURN_IF_ERROR(reader.Add(path));
  if (!paths.labels.empty()) DSLIDE_RETURN_IF_ERROR(reader.SetLabels(paths.labels));
  if (!paths.weights.empty()) DSLIDE_RETURN_IF_ERROR(reader.SetWeights(paths.weights));
  return reader;
}

Status MatrixReader::Add(const std::string& path) {
  Result<std::unique_ptr<RowMatrix>> matrix = OpenRowMatrix(path);
  DSLIDE_RETURN_IF_ERROR(matrix);
  features_.push_back(*std::move(matrix));
  const RowMatrix& added = *features_.back();
  if (features_.size() == 1) {
    header_ = {added.rows(), added.columns(), 0};
    return {};
  }
  if (added.rows() != header_.num_samples) return RowsDiffer(added);
  constexpr uint32_t kMost = std::numeric_limits<uint32_t>::max();
  if (added.columns() > kMost - header_.num_features) {
    return BadInput(fmt::format("{}: {} beside {} (expected at most {} in all)", path,
                                Plural(added.columns(), "column"), header_.num_features, kMost));
  }
  header_.num_features += added.columns();
  return {};
}

Status MatrixReader::SetLabels(const std::string& path) {
  if (IsNpyFile(path)) {
    return BadInput(fmt::format(
        "{}: is a .npy array (expected labels as a sparse matrix, by scipy.sparse.save_npz(path, "
        "Y.tocsr()))",
        path));
  }
  Result<NpzMatrix> matrix = NpzMatrix::Open(path);
  DSLIDE_RETURN_IF_ERROR(matrix);
  if (matrix->rows() != header_.num_samples) return RowsDiffer(*matrix);
  header_.num_labels = matrix->columns();
  labels_ = std::make_unique<NpzMatrix>(*std::move(matrix));
  return {};
}

Status MatrixReader::SetWeights(const std::string& path) {
  Result<NpyMatrix> column = NpyMatrix::OpenColumn(path);
  DSLIDE_RETURN_IF_ERROR(column);
  if (column->rows() != header_.num_samples) return RowsDiffer(*column);
  weights_ = std::make_unique<NpyMatrix>(*std::move(column));
  return {};
}

Error MatrixReader::RowsDiffer(const RowMatrix& matrix) const {
  return BadInput(fmt::format("{}: {}, but {} has {} (expected a row a sample in both)",
                              matrix.path(), Plural(matrix.rows(), "row"),
                              features_.front()->path(), header_.num_samples));
}

std::string MatrixReader::description() const {
  std::string all;
  for (const auto& matrix : features_) {
    all += (all.empty() ? "" : " + ") + matrix->description();
  }
  return all;
}

Status MatrixReader::ReadFeatures(SampleView* sample) {
  ids_.clear();
  values_.clear();
  uint32_t before = 0;  // columns
  for (const auto& matrix : features_) {
    DSLIDE_RETURN_IF_ERROR(matrix->ReadRow());
    if (features_.size() == 1) {
      sample->features = matrix->ids();
      sample->values = matrix->values();
      return {};
    }
    for (const uint32_t id : matrix->ids()) ids_.push_back(before + id);
    values_.insert(values_.end(), matrix->values().begin(), matrix->values().end());
    before += matrix->columns();
  }
  sample->features = ids_;
  sample->values = values_;
  return {};
}

Status MatrixReader::ReadWeight(SampleView* sample) {
  DSLIDE_RETURN_IF_ERROR(weights_->ReadRow());
  sample->weight = weights_->values().empty() ? 0.0f : weights_->values().front();
  if (IsSampleWeight(double{sample->weight})) return {};
  return BadInput(fmt::format("{}: row {}: the weight is {} (expected a number from 0 to {})",
                              weights_->path(), read_, sample->weight, kMostSampleWeight));
}

Result<std::optional<SampleView>> MatrixReader::Next() {
  if (read_ == header_.num_samples) {
    for (const auto& matrix : features_) DSLIDE_RETURN_IF_ERROR(matrix->ExpectEnd());
    if (labels_ != nullptr) DSLIDE_RETURN_IF_ERROR(labels_->ExpectEnd());
    return std::optional<SampleView>();
  }
  SampleView sample;
  DSLIDE_RETURN_IF_ERROR(ReadFeatures(&sample));
  if (labels_ != nullptr) {
    DSLIDE_RETURN_IF_ERROR(labels_->ReadRow());
    label_ids_.clear();
    for (size_t i = 0; i < labels_->ids().size(); ++i) {
      if (labels_->values()[i] != 0) label_ids_.push_back(labels_->ids()[i]);
    }
    sample.labels = label_ids_;
  }
  if (weights_ != nullptr) DSLIDE_RETURN_IF_ERROR(ReadWeight(&sample));
  ++read_;
  return std::optional(sample);
}

}  // namespace dslide
