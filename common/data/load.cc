#include "common/data/load.h"

#include <fmt/core.h>

#include "common/base/log.h"
#include "common/base/plural.h"
#include "common/base/process.h"
#include "common/data/xc_reader.h"

namespace dslide {

Result<Dataset> LoadData(const std::string& path) {
  const int64_t start_ms = MonotonicMillis();
  Result<Dataset> data = ReadXcFile(path);
  if (!data.ok()) return data;
  LogInfo(fmt::format("{}: {}, {}, {} ({:.1f} s)", path, Plural(data->size(), "sample"),
                      Plural(data->num_features(), "feature"), Plural(data->num_labels(), "label"),
                      static_cast<double>(MonotonicMillis() - start_ms) / 1000.0));
  return data;
}

}  // namespace dslide
