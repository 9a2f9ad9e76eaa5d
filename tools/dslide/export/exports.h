// A model in files of other programs. Every writer has the file's name appear once it is complete;
// errors name the file.
#pragma once

#include <string>

#include "common/base/error.h"
#include "tools/dslide/export/exported_rows.h"

namespace dslide {

// NumPy's archive (numpy.lib.format, version 1.0): a zip file without compression with
//
//   input.npy    [D + 1, H] fp32; row D is the bias; the others are divided by train.normalize
//   weights.npy  [N, H] fp32
//   bias.npy     [N] fp32
//   labels.npy   [N] bytes: names in UTF-8, or numbers
//   config.npy   bytes: the configuration as a JSON object
Status WriteNpz(const ExportedRows& rows, const std::string& path);

// The tensors input and weights in `precision`, bias in fp32, of the same shapes. The metadata has
// "labels", a JSON list of names, and "config". https://github.com/huggingface/safetensors
// describes the format.
Status WriteSafetensors(const ExportedRows& rows, Precision precision, const std::string& path);

// An IndexFlatIP of faiss over the neurons with their biases, N vectors of H + 1; the query for the
// activations h is (h, 1). In the format of faiss' write_index().
Status WriteFaiss(const ExportedRows& rows, const std::string& path);

// The features' rows with their names, as word2vec and its readers have them. Text:
//
//   file = V " " H "\n" *line        line = name *(" " number) "\n"
//
// Binary: the same header, then name " ", H numbers of fp32, least byte first, and "\n". Blanks in
// names become "_". A model whose features have no names is an error (kBadInput).
Status WriteWord2Vec(const Model& model, bool binary, const std::string& path);

}  // namespace dslide
