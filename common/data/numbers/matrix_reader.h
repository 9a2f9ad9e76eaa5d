// Samples of matrices (row_matrix.h), a row of each a sample: one file or several have the
// features, side by side, another one, if there are labels, the labels: an entry that is not 0 is a
// label. A dense matrix of one column, or a vector, may have the samples' weights.
//
// The files are read as a stream, in memory for a few rows.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/data/dataset.h"
#include "common/data/numbers/row_matrix.h"
#include "common/data/xc_reader.h"

namespace dslide {

// The files of "X.npz,Y.npz", "X.npz+V.npy,Y.npz" or "X.npz,Y.npz,W.npy"; labels and weights are
// empty where there are none.
struct MatrixPaths {
  std::vector<std::string> features;
  std::string labels;
  std::string weights = {};
};

// The files that `path` names; nullopt: no matrices. A "+" or "," behind ".npz" or ".npy" ends a
// name, but where files are there whose names have such a one, the longest name is meant; all
// behind the second "," is the weights' name. A path of one name alone must be a file of a matrix.
std::optional<MatrixPaths> MatrixPathsOf(const std::string& path);

class MatrixReader {
 public:
  // Errors (kBadInput) name the file. REQUIRES a file of features.
  static Result<MatrixReader> Open(const MatrixPaths& paths);

  // Columns of a file of features follow those of the files before it. Without labels num_labels is
  // 0.
  const XcHeader& header() const { return header_; }
  bool has_weights() const { return weights_ != nullptr; }
  // Of the features, for people: "npz + dense 768 float32".
  std::string description() const;
  // The next sample, or nullopt at the end; the view is valid until the next call.
  Result<std::optional<SampleView>> Next();

 private:
  MatrixReader() = default;

  Status Add(const std::string& path);
  Status SetLabels(const std::string& path);
  Status SetWeights(const std::string& path);
  Error RowsDiffer(const RowMatrix& matrix) const;
  // Reads the next row of all features into `sample`.
  Status ReadFeatures(SampleView* sample);
  Status ReadWeight(SampleView* sample);

  std::vector<std::unique_ptr<RowMatrix>> features_;
  std::unique_ptr<RowMatrix> labels_;   // or null
  std::unique_ptr<RowMatrix> weights_;  // or null
  XcHeader header_;
  uint64_t read_ = 0;  // samples
  // Of the sample, if there are several files.
  std::vector<uint32_t> ids_;
  std::vector<float> values_;
  std::vector<uint32_t> label_ids_;
};

}  // namespace dslide
