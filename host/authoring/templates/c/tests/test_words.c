/* The unit test, for this machine: clang -Isrc tests/test_words.c src/words.c -o build/test && build/test */
#include <assert.h>

#include "words.h"

int main(void) {
    assert(count_words("one\ntwo") == 2);
    assert(count_words("") == 0);
    return 0;
}
