//! A scripted model with an HTTP API that records its requests.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;

use serde_json::Value;

pub struct Model {
    address: String,
    serving: JoinHandle<Vec<RecordedRequest>>,
}

/// One request.
pub struct RecordedRequest {
    pub path: String,
    /// With names in lower case.
    pub headers: Vec<String>,
    pub body: Value,
}

impl Model {
    /// Answers each request with the next response of `script`, then stops.
    pub fn new(script: Vec<Value>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let serving = std::thread::spawn(move || {
            let answers = script.into_iter();
            answers
                .map(|answer| {
                    let (stream, _) = listener.accept().unwrap();
                    serve(stream, &answer)
                })
                .collect()
        });
        Self { address, serving }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits until all responses were sent, and returns the requests.
    pub fn requests(self) -> Vec<RecordedRequest> {
        self.serving.join().unwrap()
    }
}

fn serve(mut stream: TcpStream, answer: &Value) -> RecordedRequest {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = || {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    };
    let path = line().split(' ').nth(1).unwrap().to_owned();
    let headers: Vec<String> = std::iter::from_fn(|| Some(line()).filter(|line| !line.is_empty()))
        .map(|line| line.to_lowercase())
        .collect();
    let length: usize = headers
        .iter()
        .find_map(|header| header.strip_prefix("content-length: ")?.parse().ok())
        .unwrap();
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let answer = answer.to_string();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{answer}",
        answer.len()
    )
    .unwrap();
    RecordedRequest {
        path,
        headers,
        body: serde_json::from_slice(&body).unwrap(),
    }
}
