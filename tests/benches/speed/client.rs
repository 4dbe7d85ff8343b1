//! Minimal MCP client for measurements.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::median;

/// A client that writes and reads lines, with no overhead besides a pipe.
pub struct Client {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    next: u64,
}

impl Client {
    pub fn start(mut command: Command) -> anyhow::Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let stdin = child.stdin.take().expect("piped");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut client = Self {
            child,
            stdin,
            stdout,
            next: 0,
        };
        client.request(
            "initialize",
            &json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "0"}}),
        )?;
        writeln!(
            client.stdin,
            r#"{{"jsonrpc":"2.0","method":"notifications/initialized"}}"#
        )?;
        Ok(client)
    }

    /// Sends a request and returns its id.
    pub fn send(&mut self, method: &str, params: &Value) -> anyhow::Result<u64> {
        self.next += 1;
        let line = json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params})
            .to_string()
            + "\n";
        self.stdin.write_all(line.as_bytes())?;
        Ok(self.next)
    }

    /// Returns the id of the next response, which must be a success.
    pub fn receive_success(&mut self) -> anyhow::Result<u64> {
        loop {
            let mut answer = String::new();
            anyhow::ensure!(self.stdout.read_line(&mut answer)? > 0, "the server ended");
            let answer: Value = serde_json::from_str(&answer)?;
            if let Some(id) = answer["id"].as_u64() {
                let succeeded = answer["result"]["isError"] == json!(false);
                anyhow::ensure!(succeeded, "{answer}");
                return Ok(id);
            }
        }
    }

    pub fn request(&mut self, method: &str, params: &Value) -> anyhow::Result<Value> {
        self.send(method, params)?;
        loop {
            let mut answer = String::new();
            anyhow::ensure!(self.stdout.read_line(&mut answer)? > 0, "the server ended");
            let answer: Value = serde_json::from_str(&answer)?;
            if answer["id"] == json!(self.next) {
                anyhow::ensure!(answer.get("error").is_none(), "{answer}");
                return Ok(answer["result"].clone());
            }
        }
    }

    /// Returns the median time of a call, in microseconds.
    pub fn time(&mut self, calls: usize, tool: &str, arguments: &Value) -> anyhow::Result<f64> {
        Ok(median(self.times(calls, tool, arguments)?))
    }

    /// Returns the time of each call after the first hundred.
    pub fn times(
        &mut self,
        calls: usize,
        tool: &str,
        arguments: &Value,
    ) -> anyhow::Result<Vec<Duration>> {
        let params = json!({"name": tool, "arguments": arguments});
        let mut times = Vec::with_capacity(calls);
        for number in 0..calls + 100 {
            let start = Instant::now();
            let result = self.request("tools/call", &params)?;
            if number >= 100 {
                times.push(start.elapsed());
            }
            anyhow::ensure!(result["isError"] != json!(true), "{result}");
        }
        Ok(times)
    }

    /// Returns the number of tools on all pages.
    pub fn list_tools(&mut self) -> anyhow::Result<usize> {
        let (mut listed, mut page) = (0, json!({}));
        loop {
            let answer = self.request("tools/list", &page)?;
            listed += answer["tools"].as_array().map_or(0, Vec::len);
            match answer.get("nextCursor") {
                Some(cursor) => page = json!({ "cursor": cursor }),
                None => return Ok(listed),
            }
        }
    }

    /// Returns the calls per second with a fixed number in flight.
    pub fn rate(
        &mut self,
        in_flight: u64,
        long: Duration,
        tool: &str,
        arguments: &Value,
    ) -> anyhow::Result<f64> {
        let params = json!({"name": tool, "arguments": arguments});
        let start = Instant::now();
        let (mut sent, mut done) = (0, 0_u32);
        let mut answer = String::new();
        while sent > u64::from(done) || start.elapsed() < long {
            while sent < u64::from(done) + in_flight && start.elapsed() < long {
                self.next += 1;
                let id = self.next;
                let call =
                    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
                self.stdin.write_all(format!("{call}\n").as_bytes())?;
                sent += 1;
            }
            answer.clear();
            anyhow::ensure!(self.stdout.read_line(&mut answer)? > 0, "the server ended");
            // Not parsed as JSON, because the client's time is measured too.
            if answer.contains("\"result\"") {
                anyhow::ensure!(!answer.contains("\"isError\":true"), "{answer}");
                done += 1;
            } else {
                anyhow::ensure!(!answer.contains("\"error\""), "{answer}");
            }
        }
        Ok(f64::from(done) / start.elapsed().as_secs_f64())
    }

    pub fn memory(&self) -> anyhow::Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS:"))
            .unwrap_or_default();
        let kib: f64 = line.split_whitespace().nth(1).unwrap_or("0").parse()?;
        Ok(kib / 1024.0)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
