// A file of samples that are numbers already, in any of the formats for them:
//
//   the Extreme Classification Repository's, with a header (common/data/xc_reader.h)
//   LIBSVM's, without one (libsvm_reader.h)
//   matrices, "X.npz,Y.npz", or "X.npz" without labels: sparse ones of scipy (npz_matrix.h), dense
//   ones of NumPy (npy_matrix.h), or both side by side, "X.npz+V.npy,Y.npz"; with weights of
//   samples, "X.npz,Y.npz,W.npy" (matrix_reader.h)
//
// The format is recognised by content; a comma or plus between two paths by ".npz" or ".npy" before
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "common/base/error.h"
#include "common/data/dataset.h"
#include "common/data/numbers/libsvm_reader.h"
#include "common/data/numbers/matrix_reader.h"
#include "common/data/text_stream.h"
#include "common/data/xc_reader.h"

namespace dslide {

// Whether a line may be the header of the Repository's format.
bool IsNumbersHeader(std::string_view line);

// D and N of a model.
struct ModelSize {
  uint32_t features = 0;
  uint32_t labels = 0;
};

enum class NumberFormat { kRepository, kLibsvm, kNpz };  // kNpz: matrices, also dense ones

// For people: "numbers", "LIBSVM", "npz".
std::string_view NameOf(NumberFormat format);

class NumberFile {
 public:
  // Errors are as XcReader's.
  static Result<NumberFile> Open(const std::string& path);
  static Result<NumberFile> OpenMatrices(const MatrixPaths& paths);
  // Reads a stream from its beginning. REQUIRES kRepository or kLibsvm.
  static Result<NumberFile> FromStream(NumberFormat format, TextStream stream);

  NumberFormat format() const;
  // For people: NameOf(format()), or what the matrices are: "npz + dense 768 float32".
  std::string description() const;
  // What the file says of its sizes; null for LIBSVM. Matrices without labels have 0 of them.
  const XcHeader* header() const;
  // Whether it tells the samples' weights.
  bool has_weights() const;

  // From now on features that a model lacks are left out, of a file that does not tell its sizes.
  void FitTo(const ModelSize& model) { most_features_ = model.features; }
  uint64_t left_out() const { return left_out_; }  // feature entries

  // The next sample, or nullopt at the end; the view is valid until the next call.
  Result<std::optional<SampleView>> Next();

 private:
  using Reader = std::variant<XcReader, LibsvmReader, MatrixReader>;  // as NumberFormat
  explicit NumberFile(Reader reader) : reader_(std::move(reader)) {}

  Reader reader_;
  std::optional<uint32_t> most_features_;
  uint64_t left_out_ = 0;
};

// Reads the samples that are left. A file that does not tell its sizes has those of the model if
// given, else its greatest ids + 1. A file without any label, or any feature, has 0 of them.
Result<Dataset> ReadNumbers(NumberFile* file, const std::optional<ModelSize>& model);

}  // namespace dslide
