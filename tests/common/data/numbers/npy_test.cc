// Dense matrices that NumPy wrote (scipy/make.py), damage to them, and their places beside others.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "common/data/numbers/number_file.h"
#include "tests/common/data/numbers/number_samples.h"
#include "tests/support/results.h"
#include "tests/support/temp_directory.h"

namespace dslide::npy_test {
namespace {

std::string Scipy(const std::string& name) {
  return std::string(DSLIDE_SOURCE_DIR) + "/tests/common/data/numbers/scipy/" + name;
}

Result<Samples> Read(const std::string& path) { return AllSamples(NumberFile::Open(path)); }

Samples SamplesOf(const std::string& path) { return Ok(Read(path)); }

std::string ErrorOf(const std::string& path) { return MessageOf(Read(path)); }

// A .npy file of float32 with `header` for its sizes.
std::string Float32File(const std::string& header, const std::vector<float>& values) {
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size());
  bytes += '\0';
  bytes += header;
  for (const float value : values) bytes.append(reinterpret_cast<const char*>(&value), 4);
  return bytes;
}

TEST_CASE("npy: matrices that NumPy wrote, of every type, alone and with labels") {
  const Samples expected = {"|0,3|0.5,-2", "||", "|1,2|0.001,7"};
  CHECK(SamplesOf(Scipy("dense32.npy")) == expected);
  CHECK(SamplesOf(Scipy("dense64.npy")) == expected);
  CHECK(SamplesOf(Scipy("dense16.npy")) == Samples{"|0,3|0.5,-2", "||", "|1,2|0.0010004044,7"});
  CHECK(SamplesOf(Scipy("half.npy")) ==
        Samples{"|0,1,2|65504,5.9604645e-08,-3.0517578e-05", "|0|0.33325195"});
  CHECK(SamplesOf(Scipy("dense32.npy") + "," + Scipy("labels-bool.npz")) ==
        Samples{"0,2|0,3|0.5,-2", "||", "1|1,2|0.001,7"});
  CHECK(SamplesOf(Scipy("no-rows.npy")).empty());
  NumberFile file = Ok(NumberFile::Open(Scipy("dense16.npy") + "," + Scipy("labels-bool.npz")));
  CHECK(file.description() == "dense 4 float16");
  REQUIRE(file.header() != nullptr);
  CHECK(file.header()->num_samples == 3);
  CHECK(file.header()->num_features == 4);
  CHECK(file.header()->num_labels == 3);
}

TEST_CASE("npy: features of several files stand side by side") {
  const std::string sparse = Scipy("features64.npz"), dense = Scipy("dense32.npy");
  CHECK(SamplesOf(sparse + "+" + dense + "," + Scipy("labels-bool.npz")) ==
        Samples{"0,2|0,3,4,7|0.5,-2,0.5,-2", "||", "1|1,2,5,6|0.001,7,0.001,7"});
  const std::string three = dense + "+" + sparse + "+" + Scipy("dense64.npy");
  CHECK(SamplesOf(three)[2] == "|1,2,5,6,9,10|0.001,7,0.001,7,0.001,7");
  const NumberFile file = Ok(NumberFile::Open(three));
  CHECK(file.description() == "dense 4 float32 + npz + dense 4 float64");
  CHECK(file.header()->num_features == 12);
  CHECK(file.header()->num_labels == 0);
}

TEST_CASE("npy: rows that disagree are named") {
  const std::string dense = Scipy("dense32.npy"), two = Scipy("half.npy");
  CHECK(ErrorOf(dense + "+" + two) ==
        two + ": 2 rows, but " + dense + " has 3 (expected a row a sample in both)");
  CHECK(ErrorOf(two + "," + Scipy("labels-bool.npz")) ==
        Scipy("labels-bool.npz") + ": 3 rows, but " + two +
            " has 2 (expected a row a sample in both)");
}

TEST_CASE("npy: what is no matrix of floats by rows is refused in one line") {
  const std::string floats =
      " (expected float16, float32 or float64, little-endian; write it by numpy.save(path, "
      "V.astype('<f4')))";
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"fortran.npy",
       "is in Fortran order (expected C order; write it by numpy.save(path, "
       "numpy.ascontiguousarray(V)))"},
      {"big-endian.npy", "has items of type '>f4'" + floats},
      {"int64.npy", "has items of type '<i8'" + floats},
      {"dates.npy", "has items of type '<M8[s]'" + floats},
      {"line.npy", "has 1 dimension (expected two, samples and features)"},
      {"cube.npy", "has 3 dimensions (expected two, samples and features)"},
      {"no-columns.npy", "0 columns (expected 1 to 4294967295)"},
      {"nan.npy", "row 1: the value of column 2 is nan (expected a finite number)"},
      {"infinite16.npy", "row 0: the value of column 0 is -inf (expected a finite number)"},
      {"too-large64.npy", "row 0: the value of column 0 is 1e+39 (expected a finite number)"},
  };
  for (const auto& [name, message] : wrong)
    CHECK(ErrorOf(Scipy(name)) == Scipy(name) + ": " + message);
  CHECK(ErrorOf(Scipy("dense32.npy") + "," + Scipy("dense32.npy")) ==
        Scipy("dense32.npy") +
            ": is a .npy array (expected labels as a sparse matrix, by scipy.sparse.save_npz(path, "
            "Y.tocsr()))");
  CHECK(ErrorOf("/no/v.npy+/no/w.npy") == "/no/v.npy: cannot open: No such file or directory");
  CHECK(ErrorOf("/no/v.npy").starts_with("/no/v.npy: cannot open: No such file or directory"));
}

TEST_CASE("npy: a file of another length than its header says is refused") {
  const TempDirectory directory;
  const std::string path = directory.path() + "/v.npy", pair = path + "+" + path;
  const auto error = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    return ErrorOf(pair);
  };
  for (const char* name : {"dense16.npy", "dense32.npy", "dense64.npy"}) {
    const std::string good = BytesOf(Scipy(name));
    for (size_t size = 0; size < good.size(); ++size) {
      CHECK(error(good.substr(0, size)) == path + ": the array ends early (copy the file again)");
    }
    CHECK(error(good + "x") == path + ": has more items than its header says");
    CHECK(error(good + "12345678") == path + ": has more items than its header says");
    CHECK(error("\x94" + good.substr(1)) == path + ": is no .npy array");
  }
  const auto header = [](const std::string& shape) {
    return "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }\n";
  };
  CHECK(
      error(Float32File(header("(4294967296, 4294967295)"), {1})).find("cannot read the header") !=
      std::string::npos);
  CHECK(error(Float32File(header("(1073741824, 4294967295)"), {1})).find("ends early") !=
        std::string::npos);
  CHECK(error(Float32File(header("(1, 4294967296)"), {1})).find("columns (expected 1 to") !=
        std::string::npos);
  CHECK(error(Float32File(header("(1 2, 1)"), {1})).find("cannot read the header") !=
        std::string::npos);
  CHECK(error(Float32File("{'descr': '|O', 'fortran_order': False, 'shape': (1, 1), }\n", {1}))
            .starts_with(path + ": has items of type '|O' (expected float16, float32"));
  CHECK(error(Float32File("{'shape': (1, 1)}", {1})).find("cannot read the header") !=
        std::string::npos);
  std::ofstream(path, std::ios::binary) << Float32File(header("(2L, 2)"), {1, 2, 0, 4});
  CHECK(SamplesOf(path) == Samples{"|0,1|1,2", "|1|4"});
  const std::string pipe = directory.path() + "/w.npy";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(ErrorOf(path + "+" + pipe) ==
        pipe + ": is no regular file (a .npy array cannot be read from it)");
}

TEST_CASE("npy: rows longer and shorter than what is read ahead") {
  const TempDirectory directory;
  const std::string path = directory.path() + "/v.npy";
  for (const uint32_t columns : {3u, 300'000u}) {
    const uint32_t rows = columns < 10 ? 200'000 : 5;
    std::vector<float> values(size_t{rows} * columns);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7);
    const std::string shape = fmt::format(
        "{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, columns);
    std::ofstream(path, std::ios::binary) << Float32File(shape, values);
    NumberFile file = Ok(NumberFile::Open(path));
    const Dataset data = Ok(ReadNumbers(&file, std::nullopt));
    REQUIRE(data.size() == rows);
    size_t wrong = 0;
    for (uint32_t row = 0; row < rows; ++row) {
      const SampleView sample = data[row];
      for (size_t e = 0; e < sample.features.size(); ++e) {
        wrong += sample.values[e] != values[size_t{row} * columns + sample.features[e]];
      }
    }
    CHECK(wrong == 0);
    CHECK(data.num_features() == columns);
  }
}

// "weight" of each sample, or the error.
Result<std::vector<float>> ReadWeights(const std::string& path) {
  Result<NumberFile> file = NumberFile::Open(path);
  DSLIDE_RETURN_IF_ERROR(file);
  CHECK(file->has_weights());
  const Result<Dataset> data = ReadNumbers(&*file, std::nullopt);
  DSLIDE_RETURN_IF_ERROR(data);
  std::vector<float> weights;
  for (size_t i = 0; i < data->size(); ++i) weights.push_back((*data)[i].weight);
  return weights;
}

TEST_CASE("npy: a third file has the samples' weights, as a vector or a column") {
  const TempDirectory folder;
  const std::string weights = folder.path() + "/w.npy";
  const std::string path = Scipy("dense32.npy") + "," + Scipy("labels-bool.npz") + "," + weights;
  const auto write = [&](const std::string& shape, const std::vector<float>& values) {
    std::ofstream(weights, std::ios::binary) << Float32File(
        "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }\n", values);
  };
  const auto error = [&] { return MessageOf(ReadWeights(path)); };
  for (const char* shape : {"(3,)", "(3, 1)"}) {
    write(shape, {0.5f, 0.0f, 3.0f});
    const auto read = Ok(ReadWeights(path));
    CHECK(read == std::vector<float>{0.5f, 0.0f, 3.0f});
    CHECK(SamplesOf(path) == Samples{"0,2|0,3|0.5,-2", "||", "1|1,2|0.001,7"});
  }
  write("(3,)", {1.0f, -2.0f, 1.0f});
  CHECK(error() == weights + ": row 1: the weight is -2 (expected a number from 0 to 1000)");
  write("(3,)", {1.0f, 1.0f, 2e6f});
  CHECK(error() == weights + ": row 2: the weight is 2000000 (expected a number from 0 to 1000)");
  write("(3,)", {1.0f, 1.0f, std::nanf("")});
  CHECK(error().starts_with(weights + ": row 2: the value of column 0 is nan"));
  write("(2,)", {1.0f, 1.0f});
  CHECK(error().starts_with(weights + ": 2 rows, but "));
  write("(1, 3)", {1.0f, 1.0f, 1.0f});
  CHECK(error() == weights + ": is no vector (expected one number a sample)");
  std::filesystem::remove(weights);
  CHECK(error() == weights + ": cannot open: No such file or directory");
}

}  // namespace
}  // namespace dslide::npy_test
