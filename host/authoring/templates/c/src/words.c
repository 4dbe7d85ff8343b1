/* The functions of words.h. */
#include "words.h"

#include <ctype.h>

size_t count_words(const char *text) {
    size_t words = 0;
    for (int inside = 0; *text; text++) {
        int space = isspace((unsigned char)*text) != 0;
        words += !space && !inside;
        inside = !space;
    }
    return words;
}
