// Every name in a checkpoint directory, and how it is read back. schema/CHECKPOINT.md has the whole
// grammar, with what the files hold.
//
//   RUN/                               run directory of the scheduler
//     ledger/                          scheduler/ledger/ledger.h
//     checkpoint/                      DIRECTORY, if checkpoint.directory is empty
//   DIRECTORY/
//     step-000000001412/               one checkpoint, named by the batches that count
//       manifest                       common/checkpoint/manifest.h, written last
//       shard-3-0/                     server 0 of plan version 3: a database of its rows
//     preprocessor-00000000000000ff    common/checkpoint/stored_preprocessor.h, by its checksum
//     label-names.tsv                  common/checkpoint/stored_label_names.h
//     label-counts.tsv                 common/checkpoint/stored_label_counts.h
//     ranking.json                     common/checkpoint/stored_ranking.h
//     reranker                         the same
//     orphan-3-12/                     what servers of plan version 3 saved when they had lost the
//       shard-3-0/                     scheduler, with 12 steps committed
//     store-server-1-00000000000000ff/ a server's live database: its name and incarnation
//
// Functions that read a name return nullopt, or false, for one of another form.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace dslide {

constexpr char kLedgerName[] = "ledger";           // in a run directory
constexpr char kCheckpointsName[] = "checkpoint";  // in a run directory
constexpr char kManifestName[] = "manifest";       // in a checkpoint
// Beside checkpoints.
constexpr char kLabelNamesName[] = "label-names.tsv";
constexpr char kLabelCountsName[] = "label-counts.tsv";
constexpr char kRankingName[] = "ranking.json";
constexpr char kRerankerName[] = "reranker";
constexpr char kTemporarySuffix[] = ".tmp";  // of what is being written

// The directory that a path lies in.
std::string ParentOf(const std::string& path);

// The directory of checkpoints that a checkpoint lies in, absolute, however the checkpoint's path
// is written: with an end like "/" or "/.", or relative.
std::string DirectoryOfCheckpoint(const std::string& checkpoint);

// Whether a name is of one file in its directory, and of nothing elsewhere: letters, digits, '.',
// '-' and '_', at most 255 of them, the first no '.'. All names that manifests hold are.
bool IsPlainFileName(const std::string& name);

// Names sort by age. `batches`: the number of batches that count in the checkpoint.
std::string CheckpointName(uint64_t batches);
bool IsCheckpointName(const std::string& name);

std::string PreprocessorName(uint64_t checksum);

std::string ShardName(uint32_t plan_version, uint32_t server_index);
std::optional<uint32_t> PlanVersionOfShard(const std::string& name);

struct Orphan {
  uint32_t plan_version = 0;
  uint64_t committed = 0;  // steps of synchronous training; else 0
  bool operator==(const Orphan&) const = default;
};
std::string OrphanName(const Orphan& orphan);
std::optional<Orphan> ParseOrphanName(const std::string& name);

// `life`: a server's name, '-' and its incarnation in 16 hexadecimal digits. A name may have any
// characters; what no file name should have is written as %XX.
std::string StoreName(const std::string& life);
// Whether `name` is the store of another life of the server whose store is `own`.
bool IsStoreOfOtherLife(const std::string& name, const std::string& own);

}  // namespace dslide
