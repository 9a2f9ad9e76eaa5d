#include <bit>

#include "common/data/output_file.h"
#include "tools/dslide/export/exports.h"

namespace dslide {

static_assert(std::endian::native == std::endian::little, "faiss writes as the machine has it");

Status WriteFaiss(const ExportedRows& rows, const std::string& path) {
  Result<OutputFile> file = OutputFile::Create(path);
  DSLIDE_RETURN_IF_ERROR(file);
  const ByteSink sink = [&](std::string_view bytes) { file->Write(bytes); };
  const auto number = [&](auto value) {
    sink({reinterpret_cast<const char*>(&value), sizeof(value)});
  };
  const uint32_t dim = rows.hidden() + 1;
  // faiss/impl/index_write.cpp: the kind, the header of an index, and the vectors.
  sink("IxFI");
  number(static_cast<int32_t>(dim));
  number(static_cast<int64_t>(rows.labels()));
  number(int64_t{1} << 20);  // twice a number that nothing reads
  number(int64_t{1} << 20);
  number(uint8_t{1});  // is_trained
  number(int32_t{0});  // METRIC_INNER_PRODUCT
  number(uint64_t{rows.labels()} * dim);
  rows.WriteWeightsWithBias(sink);
  return file->Finish();
}

}  // namespace dslide
