# The verbs. What each does is in `xtask/src/verb.rs`; `cargo xtask VERB` works without just.

# the list of verbs
default:
    @just --list --unsorted

# build, then start the host on this folder with our plugins
run *args:
    cargo xtask run -- {{args}}

# build what the tests need, then test the workspace
test *args:
    cargo xtask test {{args}}

# formatting and lints, as CI runs them
check:
    cargo xtask check

# test, and write what came out into the expectations
bless *args:
    cargo xtask bless {{args}}

# renew plugins/*.wasm
plugins:
    cargo xtask plugins

# build, then measure what a call costs here
bench *args:
    cargo xtask bench -- {{args}}

# build the API documentation of our own crates
doc:
    cargo xtask doc

# licenses, sources, bans and security advisories of everything we depend on; clones the advisory database
deny:
    cargo deny check advisories bans licenses sources
