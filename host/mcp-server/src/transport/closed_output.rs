//! Notices that the reader of the output has closed it. Without this, the host would notice it only when it writes.

use std::io::Result;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tokio::sync::oneshot;

/// Waits until the reader of a pipe or a socket has closed it. Waits forever for other files.
pub(crate) async fn wait_until_closed(output: impl AsFd) {
    let copy = output.as_fd().try_clone_to_owned();
    let closed = match copy.and_then(watch) {
        Ok(closed) => closed.await.is_ok(),
        Err(_) => false,
    };
    if !closed {
        std::future::pending::<()>().await;
    }
}

/// Watches the output in a thread: the reactor of tokio would also report each time that it becomes writable.
fn watch(output: OwnedFd) -> Result<oneshot::Receiver<()>> {
    let (closed, receiver) = oneshot::channel();
    let watch = move || {
        // Without requested events, `poll` returns only when the other end is closed.
        let mut files = [PollFd::new(&output, PollFlags::empty())];
        while poll(&mut files, None) == Err(Errno::INTR) {}
        if files[0]
            .revents()
            .intersects(PollFlags::ERR | PollFlags::HUP)
        {
            let _ = closed.send(());
        }
    };
    let thread = thread::Builder::new().name("toolhost-output".to_owned());
    thread.spawn(watch)?;
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn a_closed_pipe_or_socket_is_noticed() {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut waiting = Box::pin(wait_until_closed(writer));
        let moment = Duration::from_millis(50);
        timeout(moment, &mut waiting).await.unwrap_err();
        drop(reader);
        waiting.await;

        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut waiting = Box::pin(wait_until_closed(ours));
        timeout(moment, &mut waiting).await.unwrap_err();
        drop(theirs);
        waiting.await;
    }

    #[tokio::test]
    async fn a_file_is_never_closed() {
        let waiting = wait_until_closed(tempfile::tempfile().unwrap());
        let moment = Duration::from_millis(50);
        timeout(moment, waiting).await.unwrap_err();
    }
}
