#include "common/data/numbers/number_file.h"

#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <fstream>

#include "tests/common/data/numbers/number_samples.h"
#include "tests/support/results.h"
#include "tests/support/temp_directory.h"

namespace dslide::number_file_test {
namespace {

class Folder {
 public:
  std::string Write(const std::string& text) const {
    const std::string path = directory_.path() + "/data.txt";
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  const std::string& path() const { return directory_.path(); }

 private:
  TempDirectory directory_;
};

// "labels|features|values" of each sample.
Samples Read(const std::string& path, std::optional<ModelSize> model = {}) {
  NumberFile file = Ok(NumberFile::Open(path));
  const Dataset data = Ok(ReadNumbers(&file, model));
  Samples samples;
  for (size_t i = 0; i < data.size(); ++i) samples.push_back(SampleText(data[i]));
  return samples;
}

std::string ErrorOf(const std::string& path) {
  Result<NumberFile> file = NumberFile::Open(path);
  if (!file.ok()) return MessageOf(file);
  return MessageOf(ReadNumbers(&*file, std::nullopt));
}

TEST_CASE("number files: formats are recognised by their first line") {
  CHECK(IsNumbersHeader(" 3 10  5"));
  CHECK_FALSE(IsNumbersHeader("3 10"));
  CHECK_FALSE(IsNumbersHeader("3 10 5x"));
  for (const char* line :
       {"1 2:3", "1,2 0:0.5 7:1e-3  ", " 4:-.5", "-1 3:1", "1.0 3:1 # why", "7 3:nan"}) {
    CAPTURE(line);
    CHECK(IsLibsvmLine(line));
  }
  for (const char* line : {"", "1,2", "a 1:2", "1 2", "1 a:2", "1 2:3 word", "1 :2", "# 1 2:3",
                           "12:30 tea", "1 2:x"}) {
    CAPTURE(line);
    CHECK_FALSE(IsLibsvmLine(line));
  }
  CHECK(IsLabelList("3,17 # no features"));
  CHECK_FALSE(IsLabelList("3 17"));
}

TEST_CASE("LIBSVM: samples, and sizes by the greatest ids") {
  const Folder folder;
  const std::string path = folder.Write(
      "\n3,1 7:2 0:0.5\n"
      " 4:1 # a comment\n"
      "\n# another\n"
      "0\r\n"
      "2 9:1e-3");
  CHECK(Read(path) == Samples{"1,3|0,7|0.5,2", "|4|1", "0||", "2|9|0.001"});
  NumberFile file = Ok(NumberFile::Open(path));
  CHECK(file.format() == NumberFormat::kLibsvm);
  CHECK(file.header() == nullptr);
  const Dataset data = Ok(ReadNumbers(&file, std::nullopt));
  CHECK(data.num_features() == 10);
  CHECK(data.num_labels() == 4);
}

TEST_CASE("LIBSVM: tabs are as good as spaces") {
  const Folder folder;
  CHECK(IsLibsvmLine("3,1\t0:0.5\t7:2"));
  CHECK(Read(folder.Write("3,1\t0:0.5\t7:2\n\t1:1 2:1\n")) == Samples{"1,3|0,7|0.5,2", "|1,2|1,1"});
}

TEST_CASE("LIBSVM: features that a model lacks are left out, labels stay") {
  const Folder folder;
  const std::string path = folder.Write("5 0:1 3:1 4:2\n1 9:1\n");
  CHECK(Read(path, ModelSize{4, 2}) == Samples{"5|0,3|1,1", "1||"});
  NumberFile file = Ok(NumberFile::Open(path));
  const Dataset data = Ok(ReadNumbers(&file, ModelSize{4, 2}));
  CHECK(file.left_out() == 2);
  CHECK(data.num_features() == 4);
  CHECK(data.num_labels() == 2);
}

TEST_CASE("LIBSVM: bad lines are named") {
  const Folder folder;
  const auto error = [&](const std::string& text) { return ErrorOf(folder.Write(text)); };
  const std::string at = folder.path() + "/data.txt:2: ";
  CHECK(error("1 2:3\n-1 2:3\n") ==
        at + "bad label '-1' (expected labels such as 3,17 and then a space)");
  CHECK(error("1 2:3\n1 4294967296:3\n") ==
        at + "feature id '4294967296' is out of range (expected 0 to 4294967294)");
  CHECK(error("1 2:3\n4294967295 2:3\n") ==
        at + "label id '4294967295' is out of range (expected 0 to 4294967294)");
  CHECK(error("1 2:3\n1 2:nan\n").starts_with(at + "the value 'nan' of feature 2"));
  CHECK(error("1 2:3\n1 2:3 2:4\n").starts_with(at + "feature id 2 is there twice"));
  CHECK(error("1 2:3\n1,1 2:3\n").starts_with(at + "label id 1 is there twice"));
  CHECK(error("1 2:3\n1 qid:7 2:3\n") == at + "bad feature 'qid:7' (expected feature:value)");
  CHECK(error("").find("the file is empty") != std::string::npos);
  CHECK(error("only words\n").find("bad header 'only words'") != std::string::npos);
  const Folder empty;
  CHECK(ErrorOf(empty.path()).find("is a directory") != std::string::npos);
}

TEST_CASE("number files: a pair of matrices is two paths with a comma") {
  const Folder folder;
  const auto pair = MatrixPathsOf("a/x.npz,b/y.npz");
  REQUIRE(pair);
  CHECK(pair->features == Samples{"a/x.npz"});
  CHECK(pair->labels == "b/y.npz");
  CHECK(pair->weights.empty());
  const auto weighted = MatrixPathsOf("x.npz+v.npy,b/y.npz,c/w.npy");
  REQUIRE(weighted);
  CHECK(weighted->features == Samples{"x.npz", "v.npy"});
  CHECK(weighted->labels == "b/y.npz");
  CHECK(weighted->weights == "c/w.npy");
  CHECK_FALSE(MatrixPathsOf("a,b.txt"));
  CHECK_FALSE(MatrixPathsOf(folder.Write("1 2:3\n")));
  // A file of text may have such a name.
  const std::string odd = folder.path() + "/x.npz,y.npz";
  std::ofstream(odd) << "1 2:3\n";
  CHECK(Read(odd) == Samples{"1|2|3"});
  std::filesystem::remove(odd);
  CHECK(ErrorOf(odd) == folder.path() + "/x.npz: cannot open: No such file or directory");
}

TEST_CASE("number files: several matrices of features are paths with a plus") {
  const auto names = [](const std::string& path) {
    const auto paths = MatrixPathsOf(path);
    REQUIRE(paths);
    return fmt::format("{}|{}", fmt::join(paths->features, "|"), paths->labels);
  };
  CHECK(names("x.npz+v.npy,y.npz") == "x.npz|v.npy|y.npz");
  CHECK(names("v.npy,y.npz") == "v.npy|y.npz");
  CHECK(names("v.npy+w.npy+x.npz") == "v.npy|w.npy|x.npz|");
  CHECK(names("a+b,c.npy,d+e,f.npz") == "a+b,c.npy|d+e,f.npz");
  CHECK(names("v.npy,y+z.npz+w.npy") == "v.npy|y+z.npz+w.npy");
  CHECK(names("v.npy+") == "v.npy||");
  for (const char* none : {"v.npy", "a+b", "a+v.npy", "v.npyx,y.npz", "x.txt,y.npz", "-"}) {
    CAPTURE(none);
    CHECK_FALSE(MatrixPathsOf(none));
  }
  // Of a name that is there, the longest is meant.
  const Folder folder;
  const std::string a = folder.path() + "/a.npz", odd = a + "+b,c.npy",
                    odder = odd + ",d.npz+e.npy";
  const auto write = [](const std::string& path) {
    std::ofstream(path) << std::string("PK\x03\x04", 4);
  };
  CHECK(names(odder) == a + "|b,c.npy|d.npz+e.npy");
  write(a);
  CHECK(names(odder) == a + "|b,c.npy|d.npz+e.npy");
  write(odd);
  CHECK(names(odder) == odd + "|d.npz+e.npy");
  CHECK(names(odd + "+" + a) == odd + "|" + a + "|");
  write(odder);
  CHECK(names(odder) == odder + "|");
  CHECK(names(odder + ",y.npz") == odder + "|y.npz");
}

}  // namespace
}  // namespace dslide::number_file_test
