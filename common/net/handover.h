// An object goes from one thread to another through a library that the thread sanitizer does not
// see into: what the first thread wrote before HandOver() is what the second one reads after
// TakeOver(). Both do nothing without the sanitizer; the library's own queues order the memory.
#pragma once

namespace dslide {

void HandOver(const void* object);
void TakeOver(const void* object);

}  // namespace dslide
