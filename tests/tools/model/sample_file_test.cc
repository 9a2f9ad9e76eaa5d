#include "tools/dslide/model/sample_file.h"

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/results.h"
#include "tests/support/temp_directory.h"

namespace dslide::sample_file_test {
namespace {

using Json = nlohmann::json;

std::vector<std::string> LinesOf(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

const std::vector<uint32_t> kRanked = {8, 3, 7, 1, 2, 9};
const std::vector<float> kScores = {6, 5, 4, 3, 2.5f, 1};

Json Line(const std::vector<uint32_t>& labels, uint32_t top_k) {
  return Json::parse(SampleLine(1, labels, kRanked, kScores, top_k));
}

TEST_CASE("sample file: a line has the sample's labels, predictions and measures") {
  CHECK(SampleLine(7, std::vector<uint32_t>{3, 9}, kRanked, kScores, 5) ==
        "{\"sample\":7,\"labels\":[3,9],\"predicted\":[8,3,7,1,2],\"scores\":[6,5,4,3,2.5],"
        "\"p_at_1\":0,\"p_at_5\":0.2,\"recall\":0.5,\"reciprocal_rank\":0.5}\n");
}

TEST_CASE("sample file: recall and reciprocal rank are of what is written, P of the ranking") {
  Json line = Line({3, 9}, 1);
  CHECK(line["predicted"] == Json({8}));
  CHECK(line["p_at_5"] == 0.2);
  CHECK(line["recall"] == 0);
  CHECK(line["reciprocal_rank"] == 0);
  line = Line({3, 9}, 100);
  CHECK(line["predicted"].size() == 6);
  CHECK(line["recall"] == 1);
  CHECK(line["reciprocal_rank"] == 0.5);
  line = Line({}, 5);
  CHECK(line["labels"] == Json::array());
  CHECK(line["recall"] == 0);
  CHECK(line["reciprocal_rank"] == 0);
  line = Json::parse(SampleLine(1, std::vector<uint32_t>{3}, {}, {}, 5));
  CHECK(line["predicted"] == Json::array());
  CHECK(line["p_at_1"] == 0);
}

TEST_CASE("sample file: samples are numbered across batches") {
  const TempDirectory directory;
  const std::string path = directory.path() + "/out";
  SparseRows labels;
  labels.ids = {7};
  labels.EndRow();
  labels.EndRow();
  TopKReply reply;
  reply.offsets = {0, 2, 2};
  reply.ids = {7, 3};
  reply.scores = {0.5f, 0.25f};
  auto file = Ok(SampleFile::Create(path, 1, nullptr));
  file.Write(labels, reply);
  file.Write(labels, reply);
  REQUIRE(file.Finish().ok());
  const std::vector<std::string> lines = LinesOf(path);
  REQUIRE(lines.size() == 4);
  for (size_t i = 0; i < lines.size(); ++i) CHECK(Json::parse(lines[i])["sample"] == i + 1);
  CHECK(Json::parse(lines[2])["labels"] == Json({7}));
  CHECK(Json::parse(lines[2])["predicted"] == Json({7}));
  CHECK(Json::parse(lines[3])["predicted"] == Json::array());
}

TEST_CASE("sample file: without a path nothing is written") {
  auto none = Ok(SampleFile::Create("", 5, nullptr));
  CHECK(none.Finish().ok());
}

}  // namespace
}  // namespace dslide::sample_file_test
