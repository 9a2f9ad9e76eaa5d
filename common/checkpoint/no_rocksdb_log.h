// No log of RocksDB's own beside a database: when the disk is full RocksDB 7.8 aborts at the second
// line that it cannot write. Errors come back from the calls.
#pragma once

#include <rocksdb/env.h>

#include <cstdarg>

namespace dslide {

class NoRocksDbLog final : public rocksdb::Logger {
 public:
  NoRocksDbLog() : Logger(rocksdb::InfoLogLevel::HEADER_LEVEL) {}
  using Logger::Logv;
  void Logv(const char*, va_list) override {}
};

}  // namespace dslide
