/* What the tools do, without the host. */
#include <stddef.h>

size_t count_words(const char *text);
