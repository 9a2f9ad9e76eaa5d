#include "tools/dslide/model/prediction_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace dslide {

Result<PredictionFile> PredictionFile::Create(const std::string& path, bool json) {
  if (path.empty()) return PredictionFile(path, json, nullptr);
  std::error_code error;
  const bool in_place =
      std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error);
  std::FILE* out = std::fopen((in_place ? path : path + ".tmp").c_str(), "w");
  if (out == nullptr) {
    return BadInput(fmt::format("{}: cannot create: {}", path, std::strerror(errno)));
  }
  return PredictionFile(in_place ? "" : path, json, out);
}

PredictionFile PredictionFile::StandardOutput(bool json) { return {"", json, stdout}; }

PredictionFile::PredictionFile(PredictionFile&& other) noexcept
    : path_(std::move(other.path_)), json_(other.json_), out_(std::exchange(other.out_, nullptr)) {}

PredictionFile::~PredictionFile() {
  if (out_ == nullptr || out_ == stdout) return;
  std::fclose(out_);
  if (path_.empty()) return;
  std::remove((path_ + ".tmp").c_str());  // incomplete
}

void PredictionFile::Write(const TopKReply& reply, uint32_t top_k) {
  if (out_ == nullptr) return;
  std::string labels, scores;
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
    if (json_) {
      fmt::print(out_, "{{\"labels\":[{}],\"scores\":[{}]}}\n", labels, scores);
    } else {
      fmt::print(out_, "{}\n", labels);
    }
  }
}

Status PredictionFile::Finish() {
  if (out_ == nullptr) return {};
  std::FILE* out = std::exchange(out_, nullptr);
  bool written = std::fflush(out) == 0;
  if (out == stdout) {
    if (written) return {};
    return Failed(fmt::format("standard output: cannot write: {}", std::strerror(errno)));
  }
  written = std::fclose(out) == 0 && written;
  if (written && path_.empty()) return {};
  const std::string temporary = path_ + ".tmp";
  if (written && std::rename(temporary.c_str(), path_.c_str()) == 0) return {};
  const std::string reason = std::strerror(errno);
  std::remove(temporary.c_str());
  return Failed(fmt::format("{}: cannot write: {}", path_, reason));
}

}  // namespace dslide
