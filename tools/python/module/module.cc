// The Python module dslide._dslide: a model file that predicts, and a writer of training files. The
// package's own modules check arguments and say what is wrong; this one checks what memory safety
// needs.
#include <fmt/format.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/app/limits.h"
#include "common/base/process.h"
#include "common/config/config.h"
#include "common/model/model_file.h"
#include "tools/python/module/number_file.h"
#include "tools/python/module/predictor.h"

namespace py = pybind11;

namespace dslide {
namespace {

template <typename T>
using Array = py::array_t<T, py::array::c_style | py::array::forcecast>;

template <typename T>
std::span<const T> SpanOf(const Array<T>& array) {
  return {array.data(), static_cast<size_t>(array.size())};
}

// Holds the GIL.
void Check(const Status& status) {
  if (status.ok()) return;
  if (status.error().kind == ErrorKind::kBadInput) throw py::value_error(status.error().message);
  PyErr_SetString(PyExc_OSError, status.error().message.c_str());  // only files fail otherwise
  throw py::error_already_set();
}

class PythonModel {
 public:
  static PythonModel Open(const std::string& path) {
    const Result<std::shared_ptr<const Model>> model = [&] {
      const py::gil_scoped_release release;
      return OpenModelFile(path);
    }();
    Check(model.ok() ? Status() : Status(model.error()));
    return PythonModel(*model, 0);
  }

  // Returns the model with another preference for rare labels; an opened file has 0.
  PythonModel Preferring(float rare) const {
    if (!(rare >= 0 && rare <= 1)) {
      throw py::value_error(fmt::format("rare must be a number from 0 to 1, not {}", rare));
    }
    if (stored_->arrays().label_counts.empty() && rare > 0) {
      throw py::value_error(
          "rare: the model does not say how many samples a label has: it is of a stream or by an "
          "earlier version; train it again");
    }
    const py::gil_scoped_release release;
    return PythonModel(stored_, rare);
  }

  const ModelInfo& info() const { return model_->info(); }
  uint32_t LiveLabels() const { return model_->live_labels(); }
  bool text() const { return model_->preprocessor() != nullptr; }
  std::optional<std::vector<std::string>> LabelNames() const {
    if (!text()) return std::nullopt;
    return model_->preprocessor()->label_names();
  }
  std::string Loss() const {
    return info().config.model.loss == dslide::Loss::kSoftmax ? "softmax" : "sigmoid";
  }

  void Save(const std::string& path, const std::string& notes) const {
    const Status status = [&] {
      const py::gil_scoped_release release;
      return WriteModelFile(*stored_->WithNotes(notes), path);
    }();
    Check(status);
  }

  py::tuple RankNumbers(const Array<int64_t>& offsets, const Array<int32_t>& ids,
                        const Array<float>& values, uint32_t k, const std::string& search,
                        uint32_t threads) const {
    return Rank(NumberRows{SpanOf(offsets), SpanOf(ids), SpanOf(values)}, offsets.size() - 1, k,
                search, threads);
  }
  py::tuple RankTexts(const JsonLines& lines, uint32_t k, const std::string& search,
                      uint32_t threads) const {
    return Rank(lines, static_cast<py::ssize_t>(lines.size()), k, search, threads);
  }

  Array<float> ScoreNumbers(const Array<int64_t>& offsets, const Array<int32_t>& ids,
                            const Array<float>& values, bool probabilities,
                            uint32_t threads) const {
    return ScoreAll(NumberRows{SpanOf(offsets), SpanOf(ids), SpanOf(values)}, offsets.size() - 1,
                    probabilities, threads);
  }
  Array<float> ScoreTexts(const JsonLines& lines, bool probabilities, uint32_t threads) const {
    return ScoreAll(lines, static_cast<py::ssize_t>(lines.size()), probabilities, threads);
  }

 private:
  PythonModel(std::shared_ptr<const Model> stored, float rare)
      : stored_(std::move(stored)), model_(AdjustedModel(stored_, rare)), predictor_(model_) {}

  static size_t Threads(uint32_t asked) { return asked > 0 ? asked : CoresOfThisMachine(); }

  py::tuple Rank(const Samples& samples, py::ssize_t count, uint32_t k, const std::string& name,
                 uint32_t threads) const {
    const std::optional<ModelSearch> search = ModelSearchByName(name);
    if (!search) throw py::value_error("search must be exact, scan or index, not " + name);
    if (k == 0 || k > model_->live_labels()) {
      throw py::value_error(fmt::format("k must be 1 to {}, not {}", model_->live_labels(), k));
    }
    count = std::max<py::ssize_t>(count, 0);
    const std::vector<py::ssize_t> shape = {count, static_cast<py::ssize_t>(k)};
    Array<uint32_t> labels(shape);
    Array<float> logits(shape), probabilities(shape);
    const Predictor::Best best{labels.mutable_data(), logits.mutable_data(),
                               probabilities.mutable_data()};
    const Status status = [&] {
      const py::gil_scoped_release release;
      return predictor_.Rank(samples, k, *search, Threads(threads), best);
    }();
    Check(status);
    return py::make_tuple(labels, logits, probabilities);
  }

  Array<float> ScoreAll(const Samples& samples, py::ssize_t count, bool probabilities,
                        uint32_t threads) const {
    const std::vector<py::ssize_t> shape = {std::max<py::ssize_t>(count, 0),
                                            static_cast<py::ssize_t>(info().labels())};
    Array<float> scores(shape);
    float* out = scores.mutable_data();
    const Status status = [&] {
      const py::gil_scoped_release release;
      return predictor_.ScoreAll(samples, probabilities, Threads(threads), out);
    }();
    Check(status);
    return scores;
  }

  std::shared_ptr<const Model> stored_;  // as in its file
  std::shared_ptr<const Model> model_;   // with its logit adjustment
  Predictor predictor_;
};

void WriteNumbers(const std::string& path, const Array<int64_t>& offsets, const Array<int32_t>& ids,
                  const Array<float>& values, const Array<int64_t>& label_offsets,
                  const Array<int32_t>& labels, uint32_t num_features, uint32_t num_labels) {
  const NumberRows rows{SpanOf(offsets), SpanOf(ids), SpanOf(values)};
  const Status status = [&] {
    const py::gil_scoped_release release;
    return WriteNumberFile(path, rows, SpanOf(label_offsets), SpanOf(labels), num_features,
                           num_labels);
  }();
  Check(status);
}

}  // namespace

PYBIND11_MODULE(_dslide, module) {
  module.doc() = "Predictions by a model file of D-SLIDE, on all cores.";
  py::class_<PythonModel>(module, "Model")
      .def_static("open", &PythonModel::Open, py::arg("path"))
      .def_property_readonly("name", [](const PythonModel& m) { return m.info().name; })
      .def_property_readonly("features", [](const PythonModel& m) { return m.info().features(); })
      .def_property_readonly("labels", [](const PythonModel& m) { return m.info().labels(); })
      .def_property_readonly("live_labels", &PythonModel::LiveLabels)
      .def_property_readonly("hidden", [](const PythonModel& m) { return m.info().hidden(); })
      .def_property_readonly("samples", [](const PythonModel& m) { return m.info().samples; })
      .def_property_readonly("probes", [](const PythonModel& m) { return m.info().probes; })
      .def_property_readonly("notes", [](const PythonModel& m) { return m.info().notes; })
      .def_property_readonly("config",
                             [](const PythonModel& m) { return FormatConfig(m.info().config); })
      .def_property_readonly("loss", &PythonModel::Loss)
      .def_property_readonly("text", &PythonModel::text)
      .def("label_names", &PythonModel::LabelNames)
      .def("preferring_rare", &PythonModel::Preferring, py::arg("rare"))
      .def("save", &PythonModel::Save, py::arg("path"), py::arg("notes"))
      .def("rank_numbers", &PythonModel::RankNumbers)
      .def("rank_texts", &PythonModel::RankTexts)
      .def("score_numbers", &PythonModel::ScoreNumbers)
      .def("score_texts", &PythonModel::ScoreTexts);
  module.def("write_numbers", &WriteNumbers);
  module.attr("MOST_FEATURE_VALUE") = kMostFeatureValue;
  module.attr("MOST_SAMPLE_WEIGHT") = kMostSampleWeight;
}

}  // namespace dslide
