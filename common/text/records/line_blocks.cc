#include "common/text/records/line_blocks.h"

namespace dslide {

Result<LineBlock> LineBlock::Read(TextStream* stream, bool keep_blank) {
  LineBlock block;
  while (block.size() < kMostLines && block.text_.size() < kMostBytes) {
    const auto line = stream->Next();
    DSLIDE_RETURN_IF_ERROR(line);
    if (!line->has_value()) break;
    if (!keep_blank && IsBlank(**line)) continue;
    block.text_.append(**line);
    block.lines_.push_back({block.text_.size(), stream->line()});
  }
  return block;
}

}  // namespace dslide
