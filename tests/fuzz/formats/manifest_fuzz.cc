// The manifest of a checkpoint. Its checksum is made right, so that what lies behind it is reached.
#include "common/checkpoint/manifest.h"

#include <cstring>

#include "common/checkpoint/file_checksum.h"
#include "tests/fuzz/fuzz_target.h"

namespace dslide::manifest_fuzz {
namespace {

using fuzz::Inputs;

constexpr std::string_view kChecksumMark = "DSLMsum\n";

std::string Mended(std::string_view input) {
  std::string file(input);
  if (file.size() < 16 || !file.ends_with(kChecksumMark)) return file;
  const uint64_t sum =
      ChecksumOf({reinterpret_cast<const uint8_t*>(file.data()), file.size() - 16});
  std::memcpy(file.data() + file.size() - 16, &sum, sizeof(sum));
  return file;
}

bool Read(std::string_view input) {
  (void)fuzz::InputFile(input, "manifest");
  const Result<Manifest> manifest = ReadManifest(fuzz::InputDirectory());
  if (!fuzz::Accepted(manifest)) return false;
  for (const uint16_t shard : manifest->slot_shard) {
    DSLIDE_CHECK(shard < manifest->shards.size());
  }
  DSLIDE_CHECK(WriteManifest(fuzz::InputDirectory(), *manifest).ok());
  const Result<Manifest> again = ReadManifest(fuzz::InputDirectory());
  DSLIDE_CHECK(again.ok() && again->done == manifest->done && again->config == manifest->config);
  DSLIDE_CHECK(again->shards.size() == manifest->shards.size());
  return true;
}

bool Run(std::string_view input) {
  const bool accepted = Read(input);
  const std::string mended = Mended(input);
  return mended == input ? accepted : Read(mended);
}

std::string BytesOf(const Manifest& manifest) {
  DSLIDE_CHECK(WriteManifest(fuzz::InputDirectory(), manifest).ok());
  return fuzz::FileBytes(fuzz::InputDirectory() + "/manifest");
}

Inputs Seeds() {
  Manifest manifest;
  manifest.run = {7};
  manifest.name = "step-000000001412";
  manifest.config = "[model]\nhidden = 8\n";
  manifest.epoch = 1;
  manifest.batches = 13;
  manifest.done = {{1, 2}, {3, 4}};
  manifest.shards = {{"shard-3-0", "server", 5, 100, {{"000001.sst", 90, 17}, {"CURRENT", 10, 3}}},
                     {"shard-3-1", "server-2", 6, 200, {}}};
  manifest.slot_shard = {0, 1, 1, 0};
  manifest.preprocessor = 9;
  return {BytesOf(manifest), BytesOf({})};
}

const fuzz::Entered kEntered({"manifest", Run, Seeds});

}  // namespace
}  // namespace dslide::manifest_fuzz
