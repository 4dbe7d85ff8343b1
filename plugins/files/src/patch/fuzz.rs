//! Fuzz target for patches.

use toolhost_fuzz_input::assembled;

use super::parse::parse;

const PATCH: &[&str] = &[
    "\n",
    " ",
    "+",
    "-",
    "@@",
    "@@ -1 +1 @@\n",
    "@@ -1,2 +1,3 @@ f\n",
    "*** Begin Patch\n",
    "*** End Patch\n",
    "*** Add File: a\n",
    "*** Delete File: b\n",
    "*** Update File: c\n",
    "*** Move to: d\n",
    "*** End of File\n",
    "diff --git a/x b/y\n",
    "--- a/x\n",
    "+++ b/y\n",
    "/dev/null\n",
    "new file mode 100755\n",
    "old mode 100644\n",
    "deleted file mode 100644\n",
    "rename from x\n",
    "rename to y\n",
    "similarity index 90%\n",
    "index 0..1 100644\n",
    "GIT binary patch\n",
    "Binary files a and b differ\n",
    "\\ No newline at end of file\n",
    "\r\n",
    "\"a\\tb\"",
    "a",
    "é",
];

#[test]
fn fuzz_patch() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let patch = assembled(bytes, PATCH);
        if let Err(error) = parse(&patch) {
            assert!(error.message.len() < 64 << 10);
        }
    });
}
