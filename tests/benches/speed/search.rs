//! grep over a large tree, beside ripgrep.

use std::process::Command;
use std::time::Instant;

use e2e::{root, target};
use serde_json::json;

use super::client::Client;
use super::tree::tree_of_100_mb;
use super::{Row, host, median, row};

pub fn search(rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let tree = target().join("bench-tree");
    let bytes = tree_of_100_mb(&tree)?;
    row(
        rows,
        "the searched tree",
        f64::from(u32::try_from(bytes / 1_000_000)?),
        "MB",
        "",
        None,
    );
    let plugins = root().join("plugins");
    let args = [
        "run",
        "--plugins",
        &plugins.to_string_lossy(),
        "--allow-path",
        &tree.to_string_lossy(),
    ];
    let mut client = Client::start(host(&args))?;
    let has_rg = Command::new("rg").arg("--version").output().is_ok();
    for (name, pattern) in [
        ("literal", "pub fn unwrap_or_else"),
        ("regex", r"fn [a-z_]+_with\w*\("),
    ] {
        let arguments = json!({"pattern": pattern, "output_mode": "count", "head_limit": 2000, "case_insensitive": false});
        let mut ours = Vec::new();
        let mut theirs = Vec::new();
        for _ in 0..5 {
            let start = Instant::now();
            let result = client.request(
                "tools/call",
                &json!({"name": "grep", "arguments": arguments}),
            )?;
            ours.push(start.elapsed());
            anyhow::ensure!(result["isError"] != json!(true), "{result}");
            if has_rg {
                let start = Instant::now();
                Command::new("rg")
                    .args(["-j1", "-c", "--", pattern])
                    .arg(&tree)
                    .output()?;
                theirs.push(start.elapsed());
            }
        }
        let ours = median(ours) / 1e3;
        row(
            rows,
            &format!("grep of the tree, {name} (p50)"),
            ours,
            "ms",
            "",
            None,
        );
        if has_rg {
            let theirs = median(theirs) / 1e3;
            row(
                rows,
                &format!("rg -j1, {name} (p50)"),
                theirs,
                "ms",
                "",
                None,
            );
            row(
                rows,
                &format!("grep beside rg -j1, {name}"),
                ours / theirs,
                "×",
                "≤ 3 ×",
                Some(ours / theirs <= 3.0),
            );
        } else {
            eprintln!("skipped: rg is not installed");
        }
    }
    Ok(())
}
