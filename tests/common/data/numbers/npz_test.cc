// Matrices that Debian's scipy wrote (scipy/make.py), and damage to them.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "common/base/random.h"
#include "common/data/numbers/matrix_reader.h"
#include "common/data/numbers/npz_archive.h"
#include "common/data/numbers/npz_writer.h"
#include "tests/common/data/numbers/number_samples.h"
#include "tests/support/results.h"
#include "tests/support/temp_directory.h"

namespace dslide::npz_test {
namespace {

std::string Scipy(const std::string& name) {
  return std::string(DSLIDE_SOURCE_DIR) + "/tests/common/data/numbers/scipy/" + name;
}

namespace fs = std::filesystem;

Result<Samples> Read(const std::string& features, const std::string& labels = "") {
  return AllSamples(MatrixReader::Open({{features}, labels}));
}

std::string ErrorOf(const std::string& features, const std::string& labels = "") {
  return MessageOf(Read(features, labels));
}

TEST_CASE("npz: matrices that scipy wrote, of any types, compressed or not") {
  const Samples expected = {"0,2|0,3|0.5,-2", "||", "1|1,2|0.001,7"};
  for (const char* features : {"features64.npz", "features32.npz"}) {
    for (const char* labels : {"labels-bool.npz", "labels-int64.npz"}) {
      const Samples read = Ok(Read(Scipy(features), Scipy(labels)));
      CHECK(read == expected);
    }
  }
  const MatrixReader reader = Ok(MatrixReader::Open({{Scipy("features64.npz")}, ""}));
  CHECK(reader.header().num_samples == 3);
  CHECK(reader.header().num_features == 4);
  CHECK(reader.header().num_labels == 0);
  CHECK(reader.description() == "npz");
}

TEST_CASE("npz: entries in any order, twice, and zeros") {
  const Samples read = Ok(Read(Scipy("unsorted.npz"), Scipy("unsorted.npz")));
  CHECK(read == Samples{"0,3|0,3|2,5", "|1|0"});  // a zero is a feature, and no label
}

TEST_CASE("npz: what does not fit is named") {
  CHECK(ErrorOf(Scipy("features64.npz"), Scipy("unsorted.npz")) ==
        Scipy("unsorted.npz") + ": 2 rows, but " + Scipy("features64.npz") +
            " has 3 (expected a row a sample in both)");
  CHECK(ErrorOf(Scipy("columns.npz")) == Scipy("columns.npz") +
                                             ": is a csc matrix (expected csr; write it by "
                                             "scipy.sparse.save_npz(path, X.tocsr()))");
  CHECK(ErrorOf(Scipy("long-row.npz")) ==
        Scipy("long-row.npz") + ": row 1: 16777217 entries (expected at most 16777216)");
  CHECK(ErrorOf(Scipy("make.py")).find("cannot open: Not a zip archive") != std::string::npos);
  CHECK(ErrorOf("/no/such.npz") == "/no/such.npz: cannot open: No such file or directory");
  CHECK_FALSE(IsZipFile(Scipy("make.py")));
  CHECK_FALSE(IsZipFile("/no/such.npz"));
  CHECK(IsZipFile(Scipy("columns.npz")));
}

TEST_CASE("npz: a file that is cut anywhere, or has a changed byte, is refused or reads the same") {
  const TempDirectory directory;
  const std::string path = directory.path() + "/x.npz";
  Random random(7);
  for (const char* name : {"features64.npz", "features32.npz"}) {
    const std::string good = BytesOf(Scipy(name));
    const Samples expected = Ok(Read(Scipy(name)));
    for (size_t size = 0; size < good.size(); size += 7) {
      std::ofstream(path, std::ios::binary) << good.substr(0, size);
      CHECK(ErrorOf(path).starts_with(path + ": "));
    }
    for (int i = 0; i < 2000; ++i) {
      std::string bad = good;
      bad[random.Below(bad.size())] = static_cast<char>(random.Below(256));
      std::ofstream(path, std::ios::binary) << bad;
      const Result<Samples> read = Read(path);
      if (read.ok()) CHECK(*read == expected);
    }
  }
}

TEST_CASE("npz: what the writer wrote is read again, and leaves no other file") {
  const TempDirectory directory;
  const std::string path = directory.path() + "/x.npz";
  for (const uint32_t columns : {6u, 4294967295u}) {
    NpzWriter writer = Ok(NpzWriter::Create(path));
    const std::vector<uint32_t> ids = {0, columns - 1};
    const std::vector<float> values = {0.1f, -3.0f};
    writer.AddRow(ids, values);
    writer.AddRow({}, {});
    writer.AddRow(std::span(ids).first(1), std::span(values).first(1));
    REQUIRE(writer.Finish(columns).ok());
    const Samples read = Ok(Read(path));
    CHECK(read == Samples{fmt::format("|0,{}|0.1,-3", columns - 1), "||", "|0|0.1"});
  }
  { const NpzWriter dropped = Ok(NpzWriter::Create(directory.path() + "/dropped.npz")); }
  CHECK(std::distance(fs::directory_iterator(directory.path()), fs::directory_iterator()) == 1);
  CHECK(MessageOf(NpzWriter::Create(directory.path() + "/none/x.npz")) ==
        directory.path() + "/none: cannot create a temporary file: No such file or directory");
}

}  // namespace
}  // namespace dslide::npz_test
