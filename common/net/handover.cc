#include "common/net/handover.h"

#if defined(__SANITIZE_THREAD__)
#define DSLIDE_THREAD_SANITIZER
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define DSLIDE_THREAD_SANITIZER
#endif
#endif

#ifdef DSLIDE_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>

// What libraries do among themselves is not seen, and looks like races.
extern "C" const char* __tsan_default_options() { return "ignore_noninstrumented_modules=1"; }

namespace dslide {

void HandOver(const void* object) { __tsan_release(const_cast<void*>(object)); }
void TakeOver(const void* object) { __tsan_acquire(const_cast<void*>(object)); }

}  // namespace dslide

#else

namespace dslide {

void HandOver(const void*) {}
void TakeOver(const void*) {}

}  // namespace dslide
#endif
