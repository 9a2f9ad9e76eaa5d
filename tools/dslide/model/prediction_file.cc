#include "tools/dslide/model/prediction_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace dslide {

Result<PredictionFile> PredictionFile::Create(const std::string& path, bool json) {
  if (path.empty()) return PredictionFile("", "", json, nullptr);
  std::error_code error;
  const bool in_place =
      std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error);
  const std::string temporary = in_place ? "" : path + ".tmp";
  std::FILE* out = std::fopen((in_place ? path : temporary).c_str(), "w");
  if (out == nullptr) {
    return BadInput(fmt::format("{}: cannot create: {}", path, std::strerror(errno)));
  }
  return PredictionFile(path, temporary, json, out);
}

PredictionFile PredictionFile::StandardOutput(bool json) {
  return {"standard output", "", json, stdout};
}

PredictionFile::PredictionFile(PredictionFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      json_(other.json_),
      out_(std::exchange(other.out_, nullptr)),
      error_(other.error_) {}

PredictionFile::~PredictionFile() {
  if (out_ == nullptr || out_ == stdout) return;
  std::fclose(out_);
  if (!temporary_.empty()) std::remove(temporary_.c_str());  // incomplete
}

void PredictionFile::Write(const TopKReply& reply, uint32_t top_k) {
  if (out_ == nullptr) return;
  std::string labels, scores, lines;
  for (size_t i = 0; i + 1 < reply.offsets.size(); ++i) {
    labels.clear();
    scores.clear();
    const uint32_t end = std::min(reply.offsets[i + 1], reply.offsets[i] + top_k);
    for (uint32_t e = reply.offsets[i]; e < end; ++e) {
      const bool first = labels.empty();
      if (json_) {
        labels += fmt::format("{}{}", first ? "" : ",", reply.ids[e]);
        scores += fmt::format("{}{}", first ? "" : ",", reply.scores[e]);
      } else {
        labels += fmt::format("{}{}:{:.4f}", first ? "" : " ", reply.ids[e], reply.scores[e]);
      }
    }
    lines += json_ ? fmt::format("{{\"labels\":[{}],\"scores\":[{}]}}\n", labels, scores)
                   : labels + "\n";
  }
  if (std::fputs(lines.c_str(), out_) < 0 && error_ == 0) error_ = errno;
}

Status PredictionFile::Finish() {
  if (out_ == nullptr) return {};
  std::FILE* out = std::exchange(out_, nullptr);
  const auto check = [this](int result) {
    if (result != 0 && error_ == 0) error_ = errno;
  };
  check(out == stdout ? std::fflush(out) : std::fclose(out));
  if (error_ == 0 && !temporary_.empty()) check(std::rename(temporary_.c_str(), path_.c_str()));
  if (error_ == 0) return {};
  if (!temporary_.empty()) std::remove(temporary_.c_str());
  return Failed(fmt::format("{}: cannot write: {}", path_, std::strerror(error_)));
}

}  // namespace dslide
