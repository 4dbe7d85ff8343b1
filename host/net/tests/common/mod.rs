//! Helpers of the integration tests: a scripted resolver, and servers that record requests.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use toolhost_net::{
    AllowedHosts, HostRule, NetClient, NetError, NetSettings, Resolve, ResponseBody, Timeouts,
};

type Answer = (String, Vec<IpAddr>);

/// Answers each lookup once, in order. A name without remaining answers does not exist.
#[derive(Clone, Default)]
pub struct ScriptedResolver {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    queries: Arc<Mutex<Vec<String>>>,
    /// Names that start with `slow` get no answer.
    silent: bool,
}

impl ScriptedResolver {
    pub fn new(answers: &[(&str, &[&str])]) -> Self {
        let fake = Self::default();
        for (name, addresses) in answers {
            let addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
            fake.answers
                .lock()
                .unwrap()
                .push_back(((*name).to_owned(), addresses));
        }
        fake
    }

    pub fn unresponsive() -> Self {
        Self {
            silent: true,
            ..Self::default()
        }
    }

    pub fn queries(&self) -> Vec<String> {
        self.queries.lock().unwrap().clone()
    }
}

#[async_trait]
impl Resolve for ScriptedResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        self.queries.lock().unwrap().push(name.to_owned());
        if self.silent && name.starts_with("slow") {
            std::future::pending::<()>().await;
        }
        let mut answers = self.answers.lock().unwrap();
        let index = answers
            .iter()
            .position(|(own, _)| own == name)
            .ok_or(io::ErrorKind::NotFound)?;
        Ok(answers.remove(index).unwrap().1)
    }
}

pub fn rules(text: &str) -> AllowedHosts {
    let rules = text
        .split_whitespace()
        .map(|rule| HostRule::parse(rule).unwrap())
        .collect();
    AllowedHosts {
        rules,
        denied: Vec::new(),
    }
}

pub fn net(text: &str, fake: ScriptedResolver) -> NetClient {
    NetClient::new(NetSettings {
        allowed: rules(text),
        resolver: Arc::new(fake),
        ..NetSettings::default()
    })
}

pub async fn send(
    net: &NetClient,
    request: Request<Empty<Bytes>>,
) -> Result<Response<ResponseBody>, NetError> {
    net.send(request, Timeouts::MAX).await
}

/// `STATUS BODY`, or `CODE: ERROR`.
pub async fn get(net: &NetClient, url: &str) -> String {
    answer(send(net, Request::get(url).body(Empty::new()).unwrap()).await).await
}

pub async fn answer(result: Result<Response<ResponseBody>, NetError>) -> String {
    let response = match result {
        Ok(response) => response,
        Err(error) => return format!("{}: {error}", error.code()),
    };
    let status = response.status().as_u16();
    match response.into_body().collect().await {
        Ok(body) => format!("{status} {}", String::from_utf8_lossy(&body.to_bytes())),
        Err(error) => format!("{status} {}: {error}", error.code()),
    }
}

/// Gives the same response to each client and records every byte that it receives.
pub struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Server {
    pub async fn start(answer: &str) -> Self {
        Self::start_on("127.0.0.1:0", answer).await
    }

    pub async fn start_on(address: &str, answer: &str) -> Self {
        let answer = answer.to_owned();
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let records = Arc::clone(&requests);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (answer, records) = (answer.clone(), Arc::clone(&records));
                tokio::spawn(async move { serve(stream, &answer, &records).await });
            }
        });
        Self {
            address,
            requests,
            task,
        }
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The requests so far. A connection without data does not count.
    pub async fn requests(&self) -> Vec<String> {
        tokio::task::yield_now().await;
        self.requests.lock().unwrap().clone()
    }

    /// Stops listening; the port is then free and refuses connections.
    pub async fn close(self) -> u16 {
        self.task.abort();
        let _ = self.task.await;
        self.address.port()
    }
}

/// Reads one request with its body, records it, then responds and closes.
pub async fn serve<S>(mut stream: S, answer: &str, keep: &Mutex<Vec<String>>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut request = String::new();
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(length) => request += &String::from_utf8_lossy(&buffer[..length]),
        }
        if let Some((head, body)) = request.split_once("\r\n\r\n") {
            let length = head
                .split("content-length: ")
                .nth(1)
                .map_or(0, |text| text.lines().next().unwrap().parse().unwrap());
            if body.len() >= length {
                break;
            }
        }
    }
    if !request.is_empty() {
        keep.lock().unwrap().push(request);
    }
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
    // Read until the other end closes, so that the response is not lost to a reset.
    while stream
        .read(&mut buffer)
        .await
        .is_ok_and(|length| length > 0)
    {}
}
